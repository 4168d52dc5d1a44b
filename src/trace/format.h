/* The record kinds of a trace, defined once: number, name, fields, and how each field is stored. Structs,
 * schemas, writer calls and reader batches are generated from the lists below. docs/trace-format.md describes
 * the bytes on disk.
 *
 * Times are nanoseconds on one clock per file. The clock is unix time (nanoseconds since the epoch) unless
 * the meta record "clock" names another. Texts are string numbers (0: none), valid only within their file.
 * A field that a chunk does not contain reads as 0, or as NaN if it is a double. NaN means unknown; so does 0
 * in fields where 0 is not a valid value. */
#ifndef TRACE_FORMAT_H
#define TRACE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* Kinds of events: X(ID, name, number on disk). Each has a struct trace_NAME and a list TRACE_ID_FIELDS.
 * Numbers are never reused; a new kind gets the next number, at the end. */
#define TRACE_EVENTS(X)           \
    X(RANGE, range, 3)            \
    X(LAUNCH, launch, 4)          \
    X(KERNEL, kernel, 5)          \
    X(COPY, copy, 6)              \
    X(SYNC, sync, 7)              \
    X(SAMPLE, sample, 8)          \
    X(POWER, power, 9)            \
    X(GEMM, gemm, 10)             \
    X(TOKEN, token, 11)           \
    X(REPLAY, replay, 13)         \
    X(MODEL_FILE, model_file, 14) \
    X(MEMORY, memory, 15)         \
    X(COLLECTIVE, collective, 16) \
    X(SOURCE_EVENT, source_event, 17)
/* All kinds with fields: the events, and two kinds that describe the file itself. */
#define TRACE_RECORDS(X) \
    X(META, meta, 1)     \
    X(LOST, lost, 12)    \
    TRACE_EVENTS(X)
/* All kinds, including chunks of strings, which have no records. */
#define TRACE_KINDS(X)   \
    X(STRING, string, 2) \
    TRACE_RECORDS(X)

/* TRACE_KIND_END is one past the largest number. A smaller value does not compile (format.c). */
#define X(ID, name, number) TRACE_##ID = number,
enum trace_kind { TRACE_KINDS(X) TRACE_KIND_END = 18 };
#undef X

enum trace_field_type {
    TRACE_FIELD_TIME,  /* uint64_t ns that usually ascends */
    TRACE_FIELD_AFTER, /* uint64_t ns, stored as the difference from the field before it (a duration) */
    TRACE_FIELD_SEQ,   /* uint64_t that usually ascends */
    TRACE_FIELD_U64,
    TRACE_FIELD_U32,
    TRACE_FIELD_STR, /* uint32_t: a string number */
    TRACE_FIELD_F64,
};

/* Values that records store as numbers: X(ID, name). trace_range_category_name() etc. return the names. */
#define TRACE_RANGE_CATEGORIES(X) \
    X(USER, "user")               \
    X(STAGE, "stage")             \
    X(MODULE, "module")           \
    X(OP, "op")
#define TRACE_SYNC_KINDS(X)             \
    X(UNKNOWN, "Synchronization")       \
    X(EVENT, "Event Sync")              \
    X(STREAM_WAIT, "Stream Wait Event") \
    X(STREAM, "Stream Sync")            \
    X(CONTEXT, "Context Sync")
#define TRACE_TOKEN_KINDS(X) \
    X(CONSUMED, "read")      \
    X(MADE, "made")
/* What memory is used for. */
#define TRACE_MEMORY_KINDS(X)          \
    X(OTHER, "other") /* or unknown */ \
    X(WEIGHTS, "weights")              \
    X(KV_CACHE, "KV cache")            \
    X(ACTIVATIONS, "activations")      \
    X(WORKSPACE, "workspace")
#define TRACE_MEMORY_ACTIONS(X)                                   \
    X(ALLOC, "alloc") /* `bytes` at `address` were allocated */   \
    X(FREE, "free")   /* `address` was freed; `bytes` may be 0 */ \
    X(TOTAL, "total") /* this kind of memory has `bytes` in total from now on */
/* Operations between ranks. trace_collective_op_of() finds the operation in the names of NCCL and PyTorch. */
#define TRACE_COLLECTIVE_OPS(X)                                                 \
    X(UNKNOWN, "unknown")                                                       \
    X(ALL_REDUCE, "all_reduce")                                                 \
    X(ALL_GATHER, "all_gather")                                                 \
    X(REDUCE_SCATTER, "reduce_scatter")                                         \
    X(BROADCAST, "broadcast")                                                   \
    X(REDUCE, "reduce")                                                         \
    X(ALL_TO_ALL, "all_to_all")                                                 \
    X(GATHER, "gather")                                                         \
    X(SCATTER, "scatter")                                                       \
    X(SEND, "send")                                                             \
    X(RECV, "recv")                                                             \
    X(SEND_RECV, "send_recv") /* a kernel that does both, directions unknown */ \
    X(BARRIER, "barrier")
#define TRACE_LOST_REASONS(X)                                                             \
    X(MEMORY, "memory")       /* no memory left, or a lock was held too long */           \
    X(DISK, "disk")           /* disk full, size limit reached, or the write failed */    \
    X(SOURCE, "source")       /* dropped before the writer received it (CUPTI's count) */ \
    X(UNTRUSTED, "untrusted") /* invalid times: end before start, 0, start before launch */
/* X(ID, name, description) */
#define TRACE_COPY_KINDS(X)                 \
    X(UNKNOWN, "unknown", "copy")           \
    X(HTOD, "HtoD", "copy host to device")  \
    X(DTOH, "DtoH", "copy device to host")  \
    X(DTOD, "DtoD", "copy on device")       \
    X(HTOH, "HtoH", "copy on host")         \
    X(PTOP, "PtoP", "copy between devices") \
    X(MEMSET, "memset", "memset")

#define X(ID, name) TRACE_CATEGORY_##ID,
enum trace_range_category { TRACE_RANGE_CATEGORIES(X) TRACE_CATEGORY_END };
#undef X
#define X(ID, name) TRACE_SYNC_##ID,
enum trace_sync_kind { TRACE_SYNC_KINDS(X) TRACE_SYNC_KIND_END };
#undef X
#define X(ID, name) TRACE_TOKEN_##ID,
enum trace_token_kind { TRACE_TOKEN_KINDS(X) TRACE_TOKEN_KIND_END };
#undef X
#define X(ID, name) TRACE_MEMORY_##ID,
enum trace_memory_kind { TRACE_MEMORY_KINDS(X) TRACE_MEMORY_KIND_END };
enum trace_memory_action { TRACE_MEMORY_ACTIONS(X) TRACE_MEMORY_ACTION_END };
#undef X
#define X(ID, name) TRACE_OP_##ID,
enum trace_collective_op { TRACE_COLLECTIVE_OPS(X) TRACE_OP_END };
#undef X
#define X(ID, name) TRACE_LOST_##ID,
enum trace_lost_reason { TRACE_LOST_REASONS(X) TRACE_LOST_REASON_END };
#undef X
#define X(ID, name, description) TRACE_COPY_##ID,
enum trace_copy_kind { TRACE_COPY_KINDS(X) TRACE_COPY_KIND_END };
#undef X

enum trace_range_flags {
    TRACE_RANGE_MARK = 1, /* an instant: end == start */
    TRACE_RANGE_FREE = 2, /* range of a start/end pair: need not nest, may end on another thread */
    TRACE_RANGE_OPEN = 4, /* was still open when the writer closed the file; end is that time */
};
/* Special values of pid and tid in source events: no id, and the empty text. Other values are signed. */
#define TRACE_ID_NONE ((uint64_t)INT64_MIN)
#define TRACE_ID_EMPTY ((uint64_t)INT64_MIN + 1)
enum trace_model_flags {
    TRACE_MODEL_OPEN = 1,       /* the program has an open descriptor of the file */
    TRACE_MODEL_MAPPED = 2,     /* the program has mapped the file */
    TRACE_MODEL_ARGUMENT = 4,   /* an argument names the file or its folder */
    TRACE_MODEL_DELETED = 8,    /* the file had been deleted */
    TRACE_MODEL_INCOMPLETE = 16 /* the description was too long: a part or all of it is missing */
};
enum trace_collective_flags {
    TRACE_COLLECTIVE_KERNEL_TIMES = 1, /* kernel_start_ns and kernel_end_ns are known */
    /* the kernel times are GPU timestamps, shifted to the clock of the file */
    TRACE_COLLECTIVE_GPU_CLOCK = 2,
    TRACE_COLLECTIVE_OPEN = 4,          /* no end was reported; end_ns is the last known time */
    TRACE_COLLECTIVE_COUNTED = 8,       /* the source gave no sequence number; `sequence` was counted */
    TRACE_COLLECTIVE_FROM_KERNEL = 16,  /* read from a kernel: start_ns and end_ns are the kernel's times */
    TRACE_COLLECTIVE_CAPTURED = 32,     /* captured into a CUDA graph: replays are not recorded */
    TRACE_COLLECTIVE_AFTER_LAUNCH = 64, /* NCCL reported the call after the launch of its kernel */
};
#define TRACE_UNKNOWN_U32 UINT32_MAX /* in power, memory and collective records */
#define TRACE_UNKNOWN_U64 UINT64_MAX /* in collective records */
#define TRACE_SAMPLE_VALUES 16

#define TRACE_META_COMMAND "process.command" /* meta key of the command line; its secrets are masked */

/* The fields of each kind: F(kind, type, field, column number). `kind` is only passed through to F. A
 * column number identifies the field on disk and is never reused. A new field gets the next number. */
#define TRACE_META_FIELDS(F, kind) \
    F(kind, STR, key, 1)           \
    F(kind, STR, value, 2)
#define TRACE_RANGE_FIELDS(F, kind)                                                             \
    F(kind, TIME, start_ns, 1)                                                                  \
    F(kind, AFTER, end_ns, 2)                                                                   \
    F(kind, U32, thread, 3)   /* kernel thread id */                                            \
    F(kind, U32, depth, 4)    /* number of ranges open around it on its thread; 0: outermost */ \
    F(kind, U32, category, 5) /* enum trace_range_category */                                   \
    F(kind, U32, flags, 6)    /* enum trace_range_flags */                                      \
    F(kind, STR, domain, 7)                                                                     \
    F(kind, STR, name, 8)                                                                       \
    F(kind, STR, detail, 9) /* shapes and types of an operator: "x[1,512,1280]bf16 w[...]" */   \
    F(kind, F64, flops, 10) /* FLOPs counted by the engine; NaN: unknown */                     \
    F(kind, F64, bytes, 11)                                                                     \
    F(kind, F64, payload, 12) /* NVTX payload; NaN: none */                                     \
    F(kind, STR, stack, 13)   /* call path, outermost first: "run.py:main:3;model.py:forward:71" */
#define TRACE_LAUNCH_FIELDS(F, kind) \
    F(kind, TIME, start_ns, 1)       \
    F(kind, AFTER, end_ns, 2)        \
    F(kind, SEQ, correlation, 3)     \
    F(kind, U32, thread, 4)          \
    F(kind, STR, api, 5) /* "cudaLaunchKernel" */
#define TRACE_KERNEL_FIELDS(F, kind)                                              \
    F(kind, TIME, start_ns, 1)                                                    \
    F(kind, AFTER, end_ns, 2)                                                     \
    F(kind, SEQ, correlation, 3)                                                  \
    F(kind, SEQ, graph_node, 4) /* 0: not from a graph */                         \
    F(kind, U32, graph, 5)      /* id of the executed graph; 0: none */           \
    F(kind, U32, device, 6)     /* index of the device, as in the meta records */ \
    F(kind, U32, context, 7)                                                      \
    F(kind, U32, stream, 8)                                                       \
    F(kind, STR, name, 9) /* as reported by the source, usually mangled */        \
    F(kind, U32, grid_x, 10)                                                      \
    F(kind, U32, grid_y, 11)                                                      \
    F(kind, U32, grid_z, 12)                                                      \
    F(kind, U32, block_x, 13)                                                     \
    F(kind, U32, block_y, 14)                                                     \
    F(kind, U32, block_z, 15)                                                     \
    F(kind, U32, registers, 16) /* per thread */                                  \
    F(kind, U32, static_smem_bytes, 17)                                           \
    F(kind, U32, dynamic_smem_bytes, 18)
#define TRACE_COPY_FIELDS(F, kind) \
    F(kind, TIME, start_ns, 1)     \
    F(kind, AFTER, end_ns, 2)      \
    F(kind, SEQ, correlation, 3)   \
    F(kind, SEQ, graph_node, 4)    \
    F(kind, U64, bytes, 5)         \
    F(kind, U32, graph, 6)         \
    F(kind, U32, device, 7)        \
    F(kind, U32, context, 8)       \
    F(kind, U32, stream, 9)        \
    F(kind, U32, copy_kind, 10) /* enum trace_copy_kind */
#define TRACE_SYNC_FIELDS(F, kind)                        \
    F(kind, TIME, start_ns, 1)                            \
    F(kind, AFTER, end_ns, 2)                             \
    F(kind, SEQ, correlation, 3)                          \
    F(kind, U32, thread, 4)                               \
    F(kind, U32, sync_kind, 5) /* enum trace_sync_kind */ \
    F(kind, U32, context, 6)                              \
    F(kind, U32, stream, 7)
/* clang-format off */
/* `metrics`: the names of the values, in order, separated by ';' ("sm__cycles_active.avg...;dram__..."). */
#define TRACE_SAMPLE_FIELDS(F, kind)                                                        \
    F(kind, TIME, start_ns, 1)                                                              \
    F(kind, AFTER, end_ns, 2)                                                               \
    F(kind, U32, device, 3)                                                                 \
    F(kind, STR, metrics, 4)                                                                \
    F(kind, F64, v0, 5) F(kind, F64, v1, 6) F(kind, F64, v2, 7) F(kind, F64, v3, 8)         \
    F(kind, F64, v4, 9) F(kind, F64, v5, 10) F(kind, F64, v6, 11) F(kind, F64, v7, 12)      \
    F(kind, F64, v8, 13) F(kind, F64, v9, 14) F(kind, F64, v10, 15) F(kind, F64, v11, 16)   \
    F(kind, F64, v12, 17) F(kind, F64, v13, 18) F(kind, F64, v14, 19) F(kind, F64, v15, 20)
/* clang-format on */
#define TRACE_POWER_FIELDS(F, kind)                                                           \
    F(kind, TIME, time_ns, 1)                                                                 \
    F(kind, SEQ, energy_mj, 2)        /* energy since the driver was loaded; 0: unknown */    \
    F(kind, U64, throttle_reasons, 3) /* bits as defined by NVML */                           \
    F(kind, U32, device, 4)                                                                   \
    F(kind, U32, sm_mhz, 5) /* TRACE_UNKNOWN_U32 if unknown, also in the next three fields */ \
    F(kind, U32, memory_mhz, 6)                                                               \
    F(kind, U32, temperature_c, 7)                                                            \
    F(kind, U32, power_mw, 8)
#define TRACE_GEMM_FIELDS(F, kind)                                                 \
    F(kind, TIME, start_ns, 1)                                                     \
    F(kind, SEQ, correlation, 2) /* 0: unknown; then matched by time and thread */ \
    F(kind, U64, m, 3)                                                             \
    F(kind, U64, n, 4)                                                             \
    F(kind, U64, k, 5)                                                             \
    F(kind, U64, batch, 6)                                                         \
    F(kind, U32, thread, 7)                                                        \
    F(kind, STR, types, 8)  /* "bf16,bf16->bf16 compute f32" */                    \
    F(kind, STR, layout, 9) /* "TN" */                                             \
    F(kind, STR, algorithm, 10)
#define TRACE_TOKEN_FIELDS(F, kind)                         \
    F(kind, TIME, time_ns, 1)                               \
    F(kind, SEQ, request, 2)                                \
    F(kind, U32, count, 3)                                  \
    F(kind, U32, token_kind, 4) /* enum trace_token_kind */ \
    F(kind, U32, thread, 5)
/* A launch of a CUDA graph whose kernels were not recorded. */
#define TRACE_REPLAY_FIELDS(F, kind)                                              \
    F(kind, TIME, start_ns, 1) /* start of the launch call */                     \
    F(kind, AFTER, end_ns, 2)                                                     \
    F(kind, SEQ, correlation, 3)                                                  \
    F(kind, U32, graph, 4) /* graph id, as in kernel records of other launches */ \
    F(kind, U32, thread, 5)                                                       \
    F(kind, U32, detach,                                                          \
      6) /* number of the detach after which the launch was counted; 0: CUPTI was attached */
/* A file with weights, or the config.json that belongs to one. A long text takes several records, which
 * differ only in `part` and `text`. The text of a GGUF file is base64 of the head of the file, without long
 * values. The text of other files is JSON. */
#define TRACE_MODEL_FILE_FIELDS(F, kind)                                      \
    F(kind, TIME, time_ns, 1)                                                 \
    F(kind, U64, file_bytes, 2) /* size of the file, or of its mapped part */ \
    F(kind, U64, text_bytes, 3) /* size of all parts, before base64 */        \
    F(kind, U32, file, 4)       /* number of the file, from 0 */              \
    F(kind, U32, part, 5)       /* from 0 */                                  \
    F(kind, U32, flags, 6)      /* enum trace_model_flags */                  \
    F(kind, STR, path, 7)                                                     \
    F(kind, STR, format, 8) /* "gguf", "safetensors", "config.json" */        \
    F(kind, STR, text, 9)
#define TRACE_MEMORY_FIELDS(F, kind)                             \
    F(kind, TIME, time_ns, 1)                                    \
    F(kind, SEQ, address, 2) /* 0: unknown */                    \
    F(kind, U64, bytes, 3)                                       \
    F(kind, U32, device, 4) /* TRACE_UNKNOWN_U32: host memory */ \
    F(kind, U32, thread, 5)                                      \
    F(kind, U32, memory_kind, 6) /* enum trace_memory_kind */    \
    F(kind, U32, action, 7)      /* enum trace_memory_action */  \
    F(kind, STR, allocator, 8)   /* "cuMemAlloc_v2", "torch" */
/* One collective, send or receive of one rank, reported by the NCCL profiler interface or by PyTorch, or read
 * from a kernel (flag FROM_KERNEL). start_ns and end_ns are the times of the call: NCCL returns before the
 * data has moved. The kernel times are the first start and the last end over all channels. An unknown number
 * is TRACE_UNKNOWN_U64 or TRACE_UNKNOWN_U32, as wide as its field; an unknown text is 0. Records of different
 * ranks belong together if `communicator`, `sequence` and `op` are equal. A send belongs to the receive with
 * the same sequence, where `peer` of one is `rank` of the other. */
#define TRACE_COLLECTIVE_FIELDS(F, kind)                                                                    \
    F(kind, TIME, start_ns, 1)                                                                              \
    F(kind, AFTER, end_ns, 2)                                                                               \
    F(kind, TIME, kernel_start_ns, 3) /* equal to start_ns without the flag KERNEL_TIMES */                 \
    F(kind, AFTER, kernel_end_ns, 4)                                                                        \
    F(kind, SEQ, sequence, 5)     /* number of the operation in its communicator */                         \
    F(kind, SEQ, correlation, 6)  /* of the launch; 0: unknown */                                           \
    F(kind, U64, communicator, 7) /* equal on all of its ranks */                                           \
    F(kind, U64, bytes, 8)        /* data of this rank: count x size of data_type */                        \
    F(kind, U64, count, 9)        /* elements that this rank sends; for reduce-scatter, that it receives */ \
    F(kind, U32, op, 10)          /* enum trace_collective_op */                                            \
    F(kind, U32, flags, 11)       /* enum trace_collective_flags */                                         \
    F(kind, U32, thread, 12)      /* thread of the call */                                                  \
    F(kind, U32, rank, 13)        /* in the communicator */                                                 \
    F(kind, U32, size, 14)        /* ranks in the communicator */                                           \
    F(kind, U32, root, 15)        /* of broadcast, reduce, gather and scatter */                            \
    F(kind, U32, peer, 16)        /* of send and recv, in the communicator */                               \
    F(kind, U32, channels, 17)                                                                              \
    F(kind, U32, nodes, 18) /* nodes in the communicator */                                                 \
    F(kind, STR, communicator_name, 19)                                                                     \
    F(kind, STR, name, 20)      /* the operation as reported: "AllReduce" */                                \
    F(kind, STR, data_type, 21) /* "bf16", as in the details of operators */                                \
    F(kind, STR, algorithm, 22) /* "RING" */                                                                \
    F(kind, STR, protocol, 23)  /* "SIMPLE" */
/* An event of a Chrome trace as the file contained it, so that an export can write it again. Kept in addition
 * to the record that was made from it. In `args`, each `#` outside of quotes stands for the next of id0 to
 * id3, and `~` for `value`. Without these numbers, most events share a few texts. */
#define TRACE_SOURCE_EVENT_FIELDS(F, kind)                                                  \
    F(kind, TIME, start_ns, 1)                                                              \
    F(kind, U64, duration_ns, 2)                                                            \
    F(kind, U32, phase, 3) /* the letter: 'X', 'i', 'M', 's', ... */                        \
    F(kind, U64, pid, 4)   /* or TRACE_ID_NONE, TRACE_ID_EMPTY */                           \
    F(kind, U64, tid, 5)                                                                    \
    F(kind, STR, pid_text, 6) /* 0: pid is not a text */                                    \
    F(kind, STR, tid_text, 7)                                                               \
    F(kind, STR, category, 8)                                                               \
    F(kind, STR, name, 9)                                                                   \
    F(kind, STR, args, 10) /* JSON object with placeholders; 0: none, or it was too long */ \
    F(kind, SEQ, flow, 11) /* id of a flow or an asynchronous event */                      \
    F(kind, SEQ, id0, 12)                                                                   \
    F(kind, SEQ, id1, 13)                                                                   \
    F(kind, SEQ, id2, 14)                                                                   \
    F(kind, SEQ, id3, 15)                                                                   \
    F(kind, F64, value, 16)
#define TRACE_LOST_FIELDS(F, kind)                   \
    F(kind, U64, count, 1)                           \
    F(kind, U32, lost_kind, 2) /* enum trace_kind */ \
    F(kind, U32, reason, 3)    /* enum trace_lost_reason */

#define TRACE_C_TIME uint64_t
#define TRACE_C_AFTER uint64_t
#define TRACE_C_SEQ uint64_t
#define TRACE_C_U64 uint64_t
#define TRACE_C_U32 uint32_t
#define TRACE_C_STR uint32_t
#define TRACE_C_F64 double

/* Declares struct trace_kernel { uint64_t start_ns, end_ns, ... }; and so on. &sample->v0 is an array of
 * 16 values. */
#define TRACE_DECLARE(kind, type, field, column) TRACE_C_##type field;
#define X(ID, name, number)                      \
    struct trace_##name {                        \
        TRACE_##ID##_FIELDS(TRACE_DECLARE, name) \
    };
TRACE_RECORDS(X)
#undef X
#undef TRACE_DECLARE

#define X(ID, name, number) struct trace_##name name;
union trace_record {
    TRACE_RECORDS(X)
};
#undef X

/* The field lists above as data, for code that handles all kinds alike: encoder, decoder, `trace dump`. */
struct trace_field {
    const char *name;
    enum trace_field_type type;
    uint8_t column;
    uint16_t offset; /* offset in the record's struct */
};
struct trace_schema {
    const char *name; /* "kernel" */
    const struct trace_field *fields;
    size_t nfields, record_bytes;
};
const struct trace_schema *trace_schema(unsigned kind); /* NULL: unknown kind, or strings */

/* The functions trace_*_name() and trace_copy_kind_description() return NULL if the number is unknown. */
const char *trace_kind_name(unsigned kind);
const char *trace_range_category_name(unsigned category);
const char *trace_copy_kind_name(unsigned copy_kind);        /* "HtoD" */
const char *trace_copy_kind_description(unsigned copy_kind); /* "copy host to device" */
const char *trace_sync_kind_name(unsigned sync_kind);
const char *trace_token_kind_name(unsigned token_kind);
const char *trace_memory_kind_name(unsigned memory_kind);
const char *trace_memory_action_name(unsigned action);
const char *trace_lost_reason_name(unsigned reason);
const char *trace_collective_op_name(unsigned op); /* "all_reduce" */

/* Returns the operation in a name of NCCL or PyTorch: "AllReduce", "nccl:_all_gather_base",
 * "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(...)", "allreduce_coalesced". TRACE_OP_UNKNOWN if the name
 * contains none. */
enum trace_collective_op trace_collective_op_of(const char *name, size_t len);
/* Returns the short name of an element type of NCCL or PyTorch ("ncclBfloat16", "BFloat16" -> "bf16") and
 * its size in bytes; NULL and 0 if the name is unknown. */
const char *trace_collective_type_of(const char *name, size_t len, uint32_t *bytes);
/* Computes a communicator id from the name of a process group and its list of ranks, for sources that report
 * no id. */
uint64_t trace_communicator_of(const char *name, const char *ranks);
/* Returns a record in which all fields are unknown and all times are start_ns. */
struct trace_collective trace_collective_unknown(uint64_t start_ns);

/* Returns the value of a field. For a double, returns its bit pattern. */
static inline uint64_t trace_field_get(const void *record, const struct trace_field *f) {
    const char *p = (const char *)record + f->offset;
    if (f->type == TRACE_FIELD_U32 || f->type == TRACE_FIELD_STR) return *(const uint32_t *)(const void *)p;
    return *(const uint64_t *)(const void *)p;
}

#endif
