/* Names of collectives and of their element types, as NCCL, its kernels and PyTorch write them. */
#include <ctype.h>
#include <string.h>

#include "base/util.h"
#include "trace/format.h"

/* Compares ignoring case and underscores, so that "AllReduce", "all_reduce" and "allreduce" are equal.
 * Returns the number of bytes of `text` that match `word`; 0: no match. */
static size_t match_word(const char *text, size_t len, const char *word) {
    size_t i = 0;
    for (; *word; word++) {
        while (i < len && text[i] == '_') i++;
        if (i == len || tolower((unsigned char)text[i]) != *word) return 0;
        i++;
    }
    return i;
}

/* The first row that matches is used, so a word comes before the words that it contains. */
static const struct {
    const char *word;
    enum trace_collective_op op;
} op_words[] = {
    { "allreduce", TRACE_OP_ALL_REDUCE },
    { "allgather", TRACE_OP_ALL_GATHER },
    { "reducescatter", TRACE_OP_REDUCE_SCATTER },
    { "alltoall", TRACE_OP_ALL_TO_ALL },
    { "all2all", TRACE_OP_ALL_TO_ALL },
    { "broadcast", TRACE_OP_BROADCAST },
    { "sendrecv", TRACE_OP_SEND_RECV },
    { "barrier", TRACE_OP_BARRIER },
    { "scatter", TRACE_OP_SCATTER },
    { "gather", TRACE_OP_GATHER },
    { "reduce", TRACE_OP_REDUCE },
    { "isend", TRACE_OP_SEND },
    { "irecv", TRACE_OP_RECV },
    { "send", TRACE_OP_SEND },
    { "recv", TRACE_OP_RECV },
};

enum trace_collective_op trace_collective_op_of(const char *name, size_t len) {
    for (size_t at = 0; at < len && name[at] != '('; at++)
        for (size_t i = 0; i < COUNTOF(op_words); i++)
            if (match_word(name + at, len - at, op_words[i].word)) return op_words[i].op;
    return TRACE_OP_UNKNOWN;
}

const char *trace_collective_type_of(const char *name, size_t len, uint32_t *bytes) {
    static const struct {
        const char *name, *type;
        uint32_t bytes;
    } rows[] = {
        { "bfloat16", "bf16", 2 },
        { "bf16", "bf16", 2 },
        { "float16", "f16", 2 },
        { "half", "f16", 2 },
        { "f16", "f16", 2 },
        { "float32", "f32", 4 },
        { "float", "f32", 4 },
        { "f32", "f32", 4 },
        { "float64", "f64", 8 },
        { "double", "f64", 8 },
        { "f64", "f64", 8 },
        { "float8e4m3", "f8e4m3", 1 },
        { "float8e4m3fn", "f8e4m3", 1 },
        { "float8e5m2", "f8e5m2", 1 },
        { "int8", "i8", 1 },
        { "char", "i8", 1 },
        { "uint8", "u8", 1 },
        { "byte", "u8", 1 },
        { "unsigned char", "u8", 1 },
        { "bool", "bool", 1 },
        { "int32", "i32", 4 },
        { "int", "i32", 4 },
        { "uint32", "u32", 4 },
        { "int64", "i64", 8 },
        { "long", "i64", 8 },
        { "uint64", "u64", 8 },
        { "int16", "i16", 2 },
        { "short", "i16", 2 },
    };
    if (len > 4 && memcmp(name, "nccl", 4) == 0) {
        name += 4;
        len -= 4;
    }
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        if (len == 0 || match_word(name, len, rows[i].name) != len) continue;
        *bytes = rows[i].bytes;
        return rows[i].type;
    }
    *bytes = 0;
    return NULL;
}

/* FNV-1a hash. Ids are compared between files, so every program that writes traces must compute the same
 * id. */
uint64_t trace_communicator_of(const char *name, const char *ranks) {
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *p = name; *p; p++) h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    h = (h ^ '/') * 0x100000001b3u;
    for (const char *p = ranks; *p; p++)
        if (*p != ' ') h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    return h == TRACE_UNKNOWN_U64 ? 0 : h;
}

struct trace_collective trace_collective_unknown(uint64_t start_ns) {
    return (struct trace_collective){
        .start_ns = start_ns,
        .end_ns = start_ns,
        .kernel_start_ns = start_ns,
        .kernel_end_ns = start_ns,
        .sequence = TRACE_UNKNOWN_U64,
        .communicator = TRACE_UNKNOWN_U64,
        .bytes = TRACE_UNKNOWN_U64,
        .count = TRACE_UNKNOWN_U64,
        .thread = TRACE_UNKNOWN_U32,
        .rank = TRACE_UNKNOWN_U32,
        .size = TRACE_UNKNOWN_U32,
        .root = TRACE_UNKNOWN_U32,
        .peer = TRACE_UNKNOWN_U32,
        .channels = TRACE_UNKNOWN_U32,
        .nodes = TRACE_UNKNOWN_U32,
    };
}
