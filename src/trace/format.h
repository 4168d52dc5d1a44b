/* The record kinds of a trace, once: numbers, names, fields and how each field is stored.
 * Knows what a record holds, not what it means. The bytes on disk are docs/trace-format.md.
 *
 * Times are nanoseconds on one clock a file (meta "clock": unix, nanoseconds since the epoch, unless it says
 * otherwise). Texts are numbers of strings (0: none); numbers of strings are valid within their file only.
 * A field that a file does not carry reads as 0, or as NaN where it is a double: unknown. */
#ifndef TRACE_FORMAT_H
#define TRACE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* kind, number on disk, name */
#define TRACE_KINDS(X)     \
    X(META, 1, "meta")     \
    X(STRING, 2, "string") \
    X(RANGE, 3, "range")   \
    X(LAUNCH, 4, "launch") \
    X(KERNEL, 5, "kernel") \
    X(COPY, 6, "copy")     \
    X(SYNC, 7, "sync")     \
    X(SAMPLE, 8, "sample") \
    X(POWER, 9, "power")   \
    X(GEMM, 10, "gemm")    \
    X(TOKEN, 11, "token")  \
    X(LOST, 12, "lost")

enum trace_kind {
#define X(id, number, name) TRACE_##id = number,
    TRACE_KINDS(X)
#undef X
        TRACE_KIND_END /* one past the last */
};

/* How a field travels. AFTER: stored as the difference to the field before it (an end as a duration). */
enum trace_field_type {
    TRACE_FIELD_TIME,  /* uint64_t ns, stored as differences from record to record */
    TRACE_FIELD_AFTER, /* uint64_t ns, stored as the difference to the field before it */
    TRACE_FIELD_SEQ,   /* uint64_t that mostly counts up */
    TRACE_FIELD_U64,
    TRACE_FIELD_U32,
    TRACE_FIELD_STR, /* uint32_t: number of a string */
    TRACE_FIELD_F64,
};

enum trace_range_category {
    TRACE_CATEGORY_USER,
    TRACE_CATEGORY_STAGE,
    TRACE_CATEGORY_MODULE,
    TRACE_CATEGORY_OP
};
enum trace_range_flags {
    TRACE_RANGE_MARK = 1, /* an instant: end == start */
    TRACE_RANGE_FREE = 2, /* start/end pair: need not nest, may end on another thread */
    TRACE_RANGE_OPEN = 4, /* was still open when the writer finished; end is that moment */
};
enum trace_copy_kind {
    TRACE_COPY_UNKNOWN,
    TRACE_COPY_HTOD,
    TRACE_COPY_DTOH,
    TRACE_COPY_DTOD,
    TRACE_COPY_HTOH,
    TRACE_COPY_PTOP,
    TRACE_COPY_MEMSET,
    TRACE_COPY_KIND_END
};
enum trace_sync_kind {
    TRACE_SYNC_UNKNOWN,
    TRACE_SYNC_EVENT,
    TRACE_SYNC_STREAM_WAIT,
    TRACE_SYNC_STREAM,
    TRACE_SYNC_CONTEXT,
    TRACE_SYNC_KIND_END
};
enum trace_token_kind { TRACE_TOKEN_CONSUMED, TRACE_TOKEN_MADE };
enum trace_lost_reason {
    TRACE_LOST_MEMORY,    /* the writer could not keep up within its memory */
    TRACE_LOST_DISK,      /* disk full, size limit reached, or the file refused the write */
    TRACE_LOST_SOURCE,    /* dropped before it reached us (CUPTI's own count) */
    TRACE_LOST_UNTRUSTED, /* quarantined: end before start, zero times, start before launch */
    TRACE_LOST_REASON_END
};
#define TRACE_UNKNOWN_U32 UINT32_MAX /* in power records */
#define TRACE_SAMPLE_VALUES 16

/* F(type, field, column number): column numbers are for ever; new fields get new numbers at the end. */
#define TRACE_META_FIELDS(F) \
    F(STR, key, 1)           \
    F(STR, value, 2)
#define TRACE_RANGE_FIELDS(F)                                                           \
    F(TIME, start_ns, 1)                                                                \
    F(AFTER, end_ns, 2)                                                                 \
    F(U32, thread, 3)   /* kernel thread id */                                          \
    F(U32, depth, 4)    /* ranges open around it on its thread, 0 outermost */          \
    F(U32, category, 5) /* enum trace_range_category */                                 \
    F(U32, flags, 6)    /* enum trace_range_flags */                                    \
    F(STR, domain, 7)                                                                   \
    F(STR, name, 8)                                                                     \
    F(STR, detail, 9) /* shapes and types of an operator: "x[1,512,1280]bf16 w[...]" */ \
    F(F64, flops, 10) /* an engine's own count; NaN: not known */                       \
    F(F64, bytes, 11)                                                                   \
    F(F64, payload, 12) /* NVTX payload; NaN: none */
#define TRACE_LAUNCH_FIELDS(F) \
    F(TIME, start_ns, 1)       \
    F(AFTER, end_ns, 2)        \
    F(SEQ, correlation, 3)     \
    F(U32, thread, 4)          \
    F(STR, api, 5) /* "cudaLaunchKernel" */
#define TRACE_KERNEL_FIELDS(F)                                    \
    F(TIME, start_ns, 1)                                          \
    F(AFTER, end_ns, 2)                                           \
    F(SEQ, correlation, 3)                                        \
    F(SEQ, graph_node, 4) /* 0: not from a graph */               \
    F(U32, graph, 5)      /* id of the executed graph; 0: none */ \
    F(U32, device, 6)     /* index into the meta's devices */     \
    F(U32, context, 7)                                            \
    F(U32, stream, 8)                                             \
    F(STR, name, 9) /* as the source gave it, usually mangled */  \
    F(U32, grid_x, 10)                                            \
    F(U32, grid_y, 11)                                            \
    F(U32, grid_z, 12)                                            \
    F(U32, block_x, 13)                                           \
    F(U32, block_y, 14)                                           \
    F(U32, block_z, 15)                                           \
    F(U32, registers, 16) /* a thread */                          \
    F(U32, static_smem_bytes, 17)                                 \
    F(U32, dynamic_smem_bytes, 18)
#define TRACE_COPY_FIELDS(F) \
    F(TIME, start_ns, 1)     \
    F(AFTER, end_ns, 2)      \
    F(SEQ, correlation, 3)   \
    F(SEQ, graph_node, 4)    \
    F(U64, bytes, 5)         \
    F(U32, graph, 6)         \
    F(U32, device, 7)        \
    F(U32, context, 8)       \
    F(U32, stream, 9)        \
    F(U32, copy_kind, 10) /* enum trace_copy_kind */
#define TRACE_SYNC_FIELDS(F)                        \
    F(TIME, start_ns, 1)                            \
    F(AFTER, end_ns, 2)                             \
    F(SEQ, correlation, 3)                          \
    F(U32, thread, 4)                               \
    F(U32, sync_kind, 5) /* enum trace_sync_kind */ \
    F(U32, context, 6)                              \
    F(U32, stream, 7)
/* clang-format off */
/* `metrics` names the values in order, separated by ';': "sm__cycles_active.avg.pct...;dram__...". */
#define TRACE_SAMPLE_FIELDS(F)                                                                               \
    F(TIME, start_ns, 1)                                                                                     \
    F(AFTER, end_ns, 2)                                                                                      \
    F(U32, device, 3)                                                                                        \
    F(STR, metrics, 4)                                                                                       \
    F(F64, v0, 5) F(F64, v1, 6) F(F64, v2, 7) F(F64, v3, 8) F(F64, v4, 9) F(F64, v5, 10) F(F64, v6, 11)      \
    F(F64, v7, 12) F(F64, v8, 13) F(F64, v9, 14) F(F64, v10, 15) F(F64, v11, 16) F(F64, v12, 17)             \
    F(F64, v13, 18) F(F64, v14, 19) F(F64, v15, 20)
/* clang-format on */
#define TRACE_POWER_FIELDS(F)                                                 \
    F(TIME, time_ns, 1)                                                       \
    F(SEQ, energy_mj, 2)        /* since the driver was loaded; 0: unknown */ \
    F(U64, throttle_reasons, 3) /* NVML's bits */                             \
    F(U32, device, 4)                                                         \
    F(U32, sm_mhz, 5) /* this and the next three: TRACE_UNKNOWN_U32 */        \
    F(U32, memory_mhz, 6)                                                     \
    F(U32, temperature_c, 7)                                                  \
    F(U32, power_mw, 8)
#define TRACE_GEMM_FIELDS(F)                                 \
    F(TIME, start_ns, 1)                                     \
    F(SEQ, correlation, 2) /* 0: match by time and thread */ \
    F(U64, m, 3)                                             \
    F(U64, n, 4)                                             \
    F(U64, k, 5)                                             \
    F(U64, batch, 6)                                         \
    F(U32, thread, 7)                                        \
    F(STR, types, 8)  /* "bf16,bf16->bf16 compute f32" */    \
    F(STR, layout, 9) /* "TN" */                             \
    F(STR, algorithm, 10)
#define TRACE_TOKEN_FIELDS(F)                         \
    F(TIME, time_ns, 1)                               \
    F(SEQ, request, 2)                                \
    F(U32, count, 3)                                  \
    F(U32, token_kind, 4) /* enum trace_token_kind */ \
    F(U32, thread, 5)
#define TRACE_LOST_FIELDS(F)                   \
    F(U64, count, 1)                           \
    F(U32, lost_kind, 2) /* enum trace_kind */ \
    F(U32, reason, 3)    /* enum trace_lost_reason */

#define TRACE_C_TIME uint64_t
#define TRACE_C_AFTER uint64_t
#define TRACE_C_SEQ uint64_t
#define TRACE_C_U64 uint64_t
#define TRACE_C_U32 uint32_t
#define TRACE_C_STR uint32_t
#define TRACE_C_F64 double
#define TRACE_DECLARE(type, field, column) TRACE_C_##type field;

struct trace_meta {
    TRACE_META_FIELDS(TRACE_DECLARE)
};
struct trace_range {
    TRACE_RANGE_FIELDS(TRACE_DECLARE)
};
struct trace_launch {
    TRACE_LAUNCH_FIELDS(TRACE_DECLARE)
};
struct trace_kernel {
    TRACE_KERNEL_FIELDS(TRACE_DECLARE)
};
struct trace_copy {
    TRACE_COPY_FIELDS(TRACE_DECLARE)
};
struct trace_sync {
    TRACE_SYNC_FIELDS(TRACE_DECLARE)
};
struct trace_sample {
    TRACE_SAMPLE_FIELDS(TRACE_DECLARE)
}; /* &s->v0 is the array of the 16 values */
struct trace_power {
    TRACE_POWER_FIELDS(TRACE_DECLARE)
};
struct trace_gemm {
    TRACE_GEMM_FIELDS(TRACE_DECLARE)
};
struct trace_token {
    TRACE_TOKEN_FIELDS(TRACE_DECLARE)
};
struct trace_lost {
    TRACE_LOST_FIELDS(TRACE_DECLARE)
};
#undef TRACE_DECLARE

/* The same as data: what encoder, decoder and `trace dump` walk. */
struct trace_field {
    const char *name;
    enum trace_field_type type;
    uint8_t column;
    uint16_t offset; /* in the record's struct */
};
struct trace_schema {
    const char *name; /* "kernel" */
    const struct trace_field *fields;
    size_t nfields, record_bytes;
};
const struct trace_schema *trace_schema(unsigned kind); /* NULL: unknown kind, or strings, which have none */
const char *trace_kind_name(unsigned kind);             /* NULL: unknown */
const char *trace_lost_reason_name(unsigned reason);    /* "memory"; NULL: unknown */

static inline uint64_t trace_field_get(const void *record, const struct trace_field *f) {
    const char *p = (const char *)record + f->offset;
    if (f->type == TRACE_FIELD_U32 || f->type == TRACE_FIELD_STR) return *(const uint32_t *)(const void *)p;
    return *(const uint64_t *)(const void *)p; /* a double as its bits */
}

#endif
