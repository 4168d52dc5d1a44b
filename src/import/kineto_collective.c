#include "import/kineto_collective.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "import/json_pull.h"
#include "import/kineto_args.h"

struct comms_args {
    char collective[64], group[128], description[128], ranks[4096], type[32];
    uint64_t in_count, out_count, size, sequence, correlation;
    uint64_t source, target; /* of a send or receive: ranks in the job */
};

static void keep_text(char *out, size_t cap, const struct json_pull *j) {
    snprintf(out, cap, "%.*s", (int)MIN(j->len, cap - 1), j->text);
}

static void take_text(struct comms_args *a, const char *key, const struct json_pull *j) {
    if (strcmp(key, "Collective name") == 0) keep_text(a->collective, sizeof a->collective, j);
    if (strcmp(key, "Process Group Name") == 0) keep_text(a->group, sizeof a->group, j);
    if (strcmp(key, "Process Group Description") == 0) keep_text(a->description, sizeof a->description, j);
    if (strcmp(key, "Process Group Ranks") == 0) keep_text(a->ranks, sizeof a->ranks, j);
    if (strcmp(key, "dtype") == 0) keep_text(a->type, sizeof a->type, j);
}

static void take_number(struct comms_args *a, const char *key, const struct json_pull *j) {
    uint64_t v;
    if (!json_to_u64(j->text, j->len, &v)) return;
    if (strcmp(key, "In msg nelems") == 0) a->in_count = v;
    if (strcmp(key, "Out msg nelems") == 0) a->out_count = v;
    if (strcmp(key, "Group size") == 0) a->size = v;
    if (strcmp(key, "Seq") == 0) a->sequence = v;
    if (strcmp(key, "correlation") == 0) a->correlation = v;
    if (strcmp(key, "Src Rank") == 0) a->source = v;
    if (strcmp(key, "Dst Rank") == 0) a->target = v;
}

static void read_args(struct span args, struct comms_args *a) {
    struct json_pull j;
    char key[64];
    json_pull_memory(&j, args.p, args.n);
    if (!args.n || json_pull_next(&j) != JSON_OBJECT) return;
    while (json_pull_next(&j) == JSON_KEY) {
        keep_text(key, sizeof key, &j);
        enum json_token tok = json_pull_raw(&j);
        if (tok <= JSON_END) return;
        if (tok == JSON_STRING) take_text(a, key, &j);
        if (tok == JSON_NUMBER) take_number(a, key, &j);
    }
}

static void take_sizes(struct sink *sink, const struct comms_args *a, struct trace_collective *out) {
    uint32_t bytes;
    const char *type = trace_collective_type_of(a->type, strlen(a->type), &bytes);
    out->count = out->op == TRACE_OP_REDUCE_SCATTER ? a->out_count : a->in_count;
    if (!type) return;
    out->data_type = sink_text(sink, type, strlen(type));
    if (out->count == TRACE_UNKNOWN_U64 || __builtin_mul_overflow(out->count, (uint64_t)bytes, &out->bytes))
        out->bytes = TRACE_UNKNOWN_U64;
}

/* Returns the position of a rank of the job in a list such as "[0, 2, 4]", or TRACE_UNKNOWN_U32. PyTorch
 * shortens long lists with dots, and then positions are unknown. *n: number of ranks in the list. */
static uint32_t position_in(const char *list, uint64_t rank, uint32_t *n) {
    uint32_t found = TRACE_UNKNOWN_U32;
    *n = 0;
    if (strstr(list, "...")) return found;
    for (const char *p = list; *p;) {
        size_t digits = strspn(p, "0123456789");
        uint64_t v;
        if (digits && json_to_u64(p, digits, &v)) {
            if (v == rank) found = *n;
            ++*n;
        }
        p += digits ? digits : 1;
    }
    return found;
}

/* Sets both ends of a send or receive. The event names the other end; in a group of two, it is implied. In
 * larger groups the sequence number of PyTorch counts the calls to all peers, so it differs between the ends,
 * and the timeline numbers the calls per peer. */
static void take_pair(const struct comms_args *a, int64_t rank, struct trace_collective *out) {
    bool sends = out->op == TRACE_OP_SEND;
    uint64_t own = sends ? a->source : a->target, other = sends ? a->target : a->source;
    uint32_t n;
    if (!sends && out->op != TRACE_OP_RECV) return;
    if (rank >= 0) own = (uint64_t)rank;
    out->rank = position_in(a->ranks, own, &n);
    out->peer = position_in(a->ranks, other, &n);
    if (n == 2 && out->peer == TRACE_UNKNOWN_U32 && out->rank < 2) out->peer = 1 - out->rank;
    if (n == 2 && out->rank == TRACE_UNKNOWN_U32 && out->peer < 2) out->rank = 1 - out->peer;
    if (n != 2 && a->size != 2) out->sequence = TRACE_UNKNOWN_U64;
}

static bool may_describe(const struct kineto_event *ev) {
    if (ev->category == KINETO_OP) return span_starts(ev->name, "record_param_comms");
    return ev->category == KINETO_KERNEL && (span_has(ev->name, "nccl") || span_has(ev->name, "rccl"));
}

bool kineto_collective(struct sink *sink, const struct kineto_event *ev, int64_t rank,
                       struct trace_collective *out) {
    struct comms_args a = { .in_count = TRACE_UNKNOWN_U64,
                            .out_count = TRACE_UNKNOWN_U64,
                            .size = TRACE_UNKNOWN_U64,
                            .sequence = TRACE_UNKNOWN_U64,
                            .source = TRACE_UNKNOWN_U64,
                            .target = TRACE_UNKNOWN_U64 };
    if (!may_describe(ev)) return false;
    read_args(ev->args, &a);
    bool kernel = ev->category == KINETO_KERNEL;
    size_t len = strlen(a.collective);
    if (!len) return false;
    *out = trace_collective_unknown(0);
    out->op = trace_collective_op_of(a.collective, len);
    /* "wait" and "init" move no data */
    if (out->op == TRACE_OP_UNKNOWN && !kernel) return false;
    out->name = sink_text(sink, a.collective, len);
    out->correlation = kernel ? a.correlation : 0;
    out->sequence = a.sequence;
    if (a.group[0] || a.ranks[0]) out->communicator = trace_communicator_of(a.group, a.ranks);
    bool described = a.description[0] && strcmp(a.description, "undefined") != 0;
    const char *name = described ? a.description : a.group;
    out->communicator_name = *name ? sink_text(sink, name, strlen(name)) : 0;
    if (a.size < TRACE_UNKNOWN_U32) out->size = (uint32_t)a.size;
    out->flags = kernel ? TRACE_COLLECTIVE_FROM_KERNEL : 0;
    out->thread = kernel ? TRACE_UNKNOWN_U32 : kineto_thread(sink, ev);
    take_sizes(sink, &a, out);
    take_pair(&a, rank, out);
    return true;
}
