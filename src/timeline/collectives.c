/* Completes the table of collectives after sorting: links records to kernels and launches, adds rows for
 * communication kernels that no record describes, and numbers operations without a sequence number. */
#include <stdlib.h>
#include <string.h>

#include "base/bisect.h"
#include "base/die.h"
#include "base/hash.h"
#include "base/util.h"
#include "base/vec.h"
#include "timeline/build.h"
#include "timeline/communication.h"

#define OVERLAP_TRIES 64 /* maximum number of kernels per device that are compared with one collective */

/* A communication kernel. `collective` is the row that describes it; TIMELINE_NONE: none yet. */
struct comm_kernel {
    uint64_t call_ns, correlation; /* of its launch; 0: unknown */
    uint32_t kernel, process, thread, launch, collective;
};
struct comm_kernels {
    struct comm_kernel *v;
    size_t n, cap;
};

/* Returns true if an identifier in the name has the word and, after it, "Kernel". This excludes kernels that
 * only have a parameter of NCCL, such as ncclDevComm. */
static bool has_kernel_of(const char *name, const char *word) {
    static const char identifier[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    for (const char *p = name; (p = strstr(p, word)); p++) {
        const char *kernel = strstr(p, "Kernel");
        if (kernel && (size_t)(kernel - p) < strspn(p, identifier)) return true;
    }
    return false;
}

static bool is_collective_kernel(const char *name) {
#define X(word, library) word,
    static const char *const words[] = { COLLECTIVE_KERNELS(X) };
#undef X
    for (size_t i = 0; i < COUNTOF(words); i++)
        if (has_kernel_of(name, words[i])) return true;
    return false;
}

static struct comm_kernels find_kernels(const struct timeline_builder *b) {
    struct comm_kernels out = { 0 };
    bool *is_comm = xcalloc(b->shapes.n + 1, sizeof *is_comm);
    for (size_t i = 0; i < b->shapes.n; i++)
        is_comm[i] = is_collective_kernel(intern_text(b->texts, b->shapes.v[i].name));
    for (size_t i = 0; i < b->kernels.n; i++) {
        if (!is_comm[b->kernels.shape[i]]) continue;
        uint32_t launch = b->kernels.launch[i];
        struct comm_kernel k = { .kernel = (uint32_t)i,
                                 .process = b->lanes.v[b->kernels.lane[i]].process,
                                 .thread = TIMELINE_NONE,
                                 .launch = launch,
                                 .collective = TIMELINE_NONE };
        if (launch != TIMELINE_NONE) {
            k.call_ns = b->launches.start_ns[launch];
            k.correlation = b->launches.correlation[launch];
            k.thread = b->launches.thread[launch];
        }
        vec_push(&out, k);
    }
    free(is_comm);
    return out;
}

#define COMPARE(x, y) \
    if ((x) != (y)) return (x) < (y) ? -1 : 1
static int by_call(const void *a, const void *b) {
    const struct comm_kernel *x = a, *y = b;
    COMPARE(x->thread, y->thread);
    COMPARE(x->call_ns, y->call_ns);
    COMPARE(x->kernel, y->kernel);
    return 0;
}
static int by_correlation(const void *a, const void *b) {
    const struct comm_kernel *x = a, *y = b;
    COMPARE(x->process, y->process);
    COMPARE(x->correlation, y->correlation);
    COMPARE(x->kernel, y->kernel);
    return 0;
}
static int by_time(const void *a, const void *b) {
    const struct comm_kernel *x = a, *y = b;
    COMPARE(x->kernel, y->kernel);
    return 0;
}
#undef COMPARE

/* Argument of is_before_key(). */
struct place {
    const struct comm_kernels *kernels;
    const struct comm_kernel *key;
    int (*order)(const void *, const void *);
};

static bool is_before_key(const void *arg, size_t i) {
    const struct place *p = arg;
    return p->order(&p->kernels->v[i], p->key) < 0;
}

/* Returns the index of the first kernel that is not before `key` in the given order; k->n if there is
 * none. */
static size_t find_first(const struct comm_kernels *k, const struct comm_kernel *key,
                         int (*order)(const void *, const void *)) {
    return bisect(0, k->n, is_before_key, &(struct place){ k, key, order });
}

/* Argument of starts_before(). */
struct moment {
    const struct timeline_builder *b;
    uint64_t ns;
};

static bool starts_before(const void *arg, size_t kernel) {
    const struct moment *m = arg;
    return m->b->kernels.start_ns[kernel] < m->ns;
}

static void link_row(struct timeline_builder *b, uint32_t row, struct comm_kernel *k) {
    struct collective_columns *c = &b->collectives;
    struct trace_collective *v = &c->v[row];
    k->collective = row;
    if (c->kernel[row] != TIMELINE_NONE) return;
    c->kernel[row] = k->kernel;
    c->launch[row] = k->launch;
    if (k->launch != TIMELINE_NONE) c->range[row] = b->launches.range[k->launch];
    if (c->thread[row] == TIMELINE_NONE) c->thread[row] = k->thread;
    if (v->flags & TRACE_COLLECTIVE_KERNEL_TIMES) return;
    v->kernel_start_ns = b->kernels.start_ns[k->kernel];
    v->kernel_end_ns = b->kernels.end_ns[k->kernel];
    v->flags |= TRACE_COLLECTIVE_KERNEL_TIMES | TRACE_COLLECTIVE_GPU_CLOCK;
}

/* Ends of the last two groups of calls on a thread. Calls that overlap belong to one group. */
struct group_end {
    uint64_t before_ns, end_ns; /* end of the previous group; latest end in the current group */
};

/* Returns the last kernel that was launched on the thread before the end of the call; NULL if it does not
 * belong to the call. A launch before the call belongs to it if NCCL reported the call after the launch, and
 * the launch follows the end of the previous group. */
static struct comm_kernel *launched_by(const struct timeline_builder *b, struct comm_kernels *k, size_t row,
                                       struct group_end *group) {
    const struct collective_columns *c = &b->collectives;
    struct comm_kernel key = { .thread = c->thread[row], .call_ns = c->end_ns[row], .kernel = UINT32_MAX };
    if (c->start_ns[row] > group->end_ns) group->before_ns = group->end_ns;
    group->end_ns = MAX(group->end_ns, c->end_ns[row]);
    size_t at = find_first(k, &key, by_call);
    if (!at || k->v[at - 1].thread != c->thread[row]) return NULL;
    uint64_t call_ns = k->v[at - 1].call_ns;
    bool late = c->v[row].flags & TRACE_COLLECTIVE_AFTER_LAUNCH && call_ns > group->before_ns;
    return call_ns >= c->start_ns[row] || late ? &k->v[at - 1] : NULL;
}

/* Links calls to the kernels that they launched. The calls of a group share one kernel. */
static void link_calls(struct timeline_builder *b, struct comm_kernels *k) {
    struct collective_columns *c = &b->collectives;
    struct group_end *groups = xcalloc(b->threads.n + 1, sizeof *groups);
    qsort(k->v, k->n, sizeof *k->v, by_call);
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->thread[i] == TIMELINE_NONE || c->v[i].flags & TRACE_COLLECTIVE_FROM_KERNEL) continue;
        struct comm_kernel *kernel = launched_by(b, k, i, &groups[c->thread[i]]);
        if (kernel) link_row(b, i, kernel);
    }
    free(groups);
}

static bool same_op(const struct timeline_builder *b, const struct comm_kernel *k, uint32_t op) {
    const char *name = intern_text(b->texts, b->shapes.v[b->kernels.shape[k->kernel]].name);
    enum trace_collective_op own = trace_collective_op_of(name, strlen(name));
    bool pair = own == TRACE_OP_SEND_RECV && (op == TRACE_OP_SEND || op == TRACE_OP_RECV);
    return own == op || pair || own == TRACE_OP_UNKNOWN || op == TRACE_OP_UNKNOWN;
}

/* Returns the communication kernel that overlaps the kernel times of a row longest; NULL: none. The kernel
 * must have the same process, the same or an unknown operation, and no row yet. `k` is sorted by kernel, so
 * the kernels of a device are sorted by start. */
static struct comm_kernel *overlapping(const struct timeline_builder *b, struct comm_kernels *k, size_t row) {
    const struct trace_collective *v = &b->collectives.v[row];
    struct comm_kernel *best = NULL;
    uint64_t most_ns = 0;
    for (size_t d = 0; d < b->devices.n; d++) {
        const struct timeline_device *device = &b->devices.v[d];
        size_t last = device->first_kernel + device->kernel_count;
        struct moment end = { b, v->kernel_end_ns };
        size_t after = bisect(device->first_kernel, last, starts_before, &end);
        struct comm_kernel key = { .kernel = (uint32_t)after };
        for (size_t at = find_first(k, &key, by_time), tries = 0;
             at > 0 && k->v[at - 1].kernel >= device->first_kernel && tries < OVERLAP_TRIES; at--, tries++) {
            struct comm_kernel *other = &k->v[at - 1];
            uint64_t from = MAX(b->kernels.start_ns[other->kernel], v->kernel_start_ns),
                     to = MIN(b->kernels.end_ns[other->kernel], v->kernel_end_ns);
            if (other->process != b->collectives.process[row] || other->collective != TIMELINE_NONE ||
                to <= from || to - from <= most_ns || !same_op(b, other, v->op))
                continue;
            best = other;
            most_ns = to - from;
        }
    }
    return best;
}

/* Links rows that have kernel times but no launch on their thread, such as collectives of a replayed CUDA
 * graph, to the kernels that overlap these times. */
static void link_times(struct timeline_builder *b, struct comm_kernels *k) {
    struct collective_columns *c = &b->collectives;
    qsort(k->v, k->n, sizeof *k->v, by_time);
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->kernel[i] != TIMELINE_NONE || !(c->v[i].flags & TRACE_COLLECTIVE_KERNEL_TIMES)) continue;
        if (c->v[i].flags & TRACE_COLLECTIVE_FROM_KERNEL) continue;
        struct comm_kernel *kernel = overlapping(b, k, i);
        if (kernel) link_row(b, i, kernel);
    }
}

/* Links rows that were read from kernels, by correlation id. Returns one flag per row: true if the row
 * must be dropped, because a call already describes its kernel. */
static bool *link_from_kernels(struct timeline_builder *b, struct comm_kernels *k) {
    struct collective_columns *c = &b->collectives;
    bool *drop = xcalloc(c->n + 1, sizeof *drop);
    qsort(k->v, k->n, sizeof *k->v, by_correlation);
    for (uint32_t i = 0; i < c->n; i++) {
        if (!(c->v[i].flags & TRACE_COLLECTIVE_FROM_KERNEL) || !c->v[i].correlation) continue;
        struct comm_kernel key = { .process = c->process[i], .correlation = c->v[i].correlation };
        size_t at = find_first(k, &key, by_correlation);
        while (at < k->n && k->v[at].process == key.process && k->v[at].correlation == key.correlation &&
               b->kernels.start_ns[k->v[at].kernel] != c->start_ns[i])
            at++; /* a graph launch has many kernels */
        if (at == k->n || k->v[at].process != key.process || k->v[at].correlation != key.correlation)
            continue;
        drop[i] = k->v[at].collective != TIMELINE_NONE;
        if (!drop[i]) link_row(b, i, &k->v[at]);
    }
    return drop;
}

static void drop_rows(struct timeline_builder *b, const bool *drop) {
    struct columns c = build_columns(b, TRACE_COLLECTIVE);
    uint32_t *kept = xmalloc((*c.n + 1) * sizeof *kept);
    size_t n = 0;
    for (size_t i = 0; i < *c.n; i++)
        if (!drop[i]) kept[n++] = (uint32_t)i;
    bool all = n == *c.n;
    *c.n = n;
    if (!all) columns_permute(&c, kept);
    free(kept);
}

/* Reads the number of elements and their type from the shapes of an operator: "[16,559]bf16". */
static void take_shape(struct timeline_builder *b, struct trace_collective *v, const char *detail) {
    uint64_t count = 1, dim;
    const char *p = detail + (*detail == '[');
    if (*detail != '[') return;
    for (char *end; *p && *p != ']'; p = end + (*end == ',')) {
        dim = strtoull(p, &end, 10);
        if (end == p || __builtin_mul_overflow(count, dim, &count)) return;
    }
    if (*p != ']') return;
    size_t len = strcspn(p + 1, " ;");
    uint32_t bytes;
    const char *type = trace_collective_type_of(p + 1, len, &bytes);
    v->count = count;
    if (!type || __builtin_mul_overflow(count, (uint64_t)bytes, &v->bytes)) {
        v->bytes = TRACE_UNKNOWN_U64;
        return;
    }
    v->data_type = timeline_builder_text(b, type);
}

/* Takes the operation and the size of the data from the range of the call: "nccl:all_reduce" of PyTorch with
 * the shape of its tensor, or "ncclAllReduce" of NCCL, whose payload is the number of bytes. */
static void take_range(struct timeline_builder *b, struct trace_collective *v, uint32_t range) {
    for (int i = 0; range != TIMELINE_NONE && i < TIMELINE_MAX_AROUND; i++, range = b->ranges.parent[range]) {
        const char *name = intern_text(b->texts, b->ranges.name[range]);
        if (strncmp(name, "nccl", 4) != 0) continue;
        enum trace_collective_op op = trace_collective_op_of(name, strlen(name));
        if (v->op == TRACE_OP_UNKNOWN) v->op = op;
        if (b->ranges.detail[range] && v->count == TRACE_UNKNOWN_U64)
            take_shape(b, v, intern_text(b->texts, b->ranges.detail[range]));
        bool of_nccl = strcmp(intern_text(b->texts, b->ranges.domain[range]), "NCCL") == 0;
        if (of_nccl && v->bytes == TRACE_UNKNOWN_U64 && b->ranges.payload[range] >= 0)
            v->bytes = (uint64_t)b->ranges.payload[range];
    }
}

/* Adds a row for a kernel that no record describes. The names of NCCL's kernels contain the operation. The
 * algorithm and the protocol in a name are those that the kernel was compiled for, but one kernel runs all of
 * them, so both stay unknown. */
static void add_row(struct timeline_builder *b, struct comm_kernel *k) {
    struct kernel_columns *kernels = &b->kernels;
    const char *name = intern_text(b->texts, b->shapes.v[kernels->shape[k->kernel]].name);
    struct trace_collective v = trace_collective_unknown(kernels->start_ns[k->kernel]);
    v.end_ns = v.kernel_end_ns = kernels->end_ns[k->kernel];
    v.flags = TRACE_COLLECTIVE_KERNEL_TIMES | TRACE_COLLECTIVE_GPU_CLOCK | TRACE_COLLECTIVE_FROM_KERNEL;
    v.correlation = k->correlation;
    v.op = trace_collective_op_of(name, strlen(name));
    v.name = b->shapes.v[kernels->shape[k->kernel]].name;
    take_range(b, &v, kernels->range[k->kernel]);
    struct columns columns = build_columns(b, TRACE_COLLECTIVE);
    columns_reserve(&columns, 1);
    struct collective_columns *c = &b->collectives;
    size_t i = c->n++;
    c->v[i] = v;
    c->start_ns[i] = v.start_ns;
    c->end_ns[i] = v.end_ns;
    c->process[i] = k->process;
    c->thread[i] = k->thread;
    c->launch[i] = k->launch;
    c->range[i] = kernels->range[k->kernel];
    c->kernel[i] = k->kernel;
}

/* Adds rows for kernels that no row describes. Skips processes that have records of collectives but no
 * launches: their calls cannot be matched to kernels, so the collectives would be counted twice. */
static void add_missing(struct timeline_builder *b, struct comm_kernels *k) {
    qsort(k->v, k->n, sizeof *k->v, by_time);
    for (size_t i = 0; i < k->n; i++) {
        const struct timeline_process *p = &b->processes.v[k->v[i].process];
        if (k->v[i].collective != TIMELINE_NONE) continue;
        if (p->records[TRACE_COLLECTIVE] && !p->has_launches) continue;
        add_row(b, &k->v[i]);
    }
}

/* Numbers rows that have no sequence number, per process and communicator. Sends and receives are also
 * numbered per direction and peer. */
static void count_sequences(struct timeline_builder *b) {
    struct collective_columns *c = &b->collectives;
    struct intern *keys = intern_open();
    struct {
        uint64_t *v;
        size_t n, cap;
    } next = { 0 };
    for (size_t i = 0; i < c->n; i++) {
        struct trace_collective *v = &c->v[i];
        if (v->sequence != TRACE_UNKNOWN_U64) continue;
        bool pair = v->op == TRACE_OP_SEND || v->op == TRACE_OP_RECV;
        uint64_t key[4] = { c->process[i], v->communicator, pair ? v->op : 0, pair ? v->peer : 0 };
        uint32_t id = intern_id(keys, (const char *)key, sizeof key);
        if (id == next.n) vec_push(&next, 0);
        v->sequence = next.v[id]++;
        v->flags |= TRACE_COLLECTIVE_COUNTED;
    }
    free(next.v);
    intern_close(keys);
}

void build_collectives(struct timeline_builder *b) {
    struct comm_kernels k = find_kernels(b);
    if (!k.n && !b->collectives.n) return;
    if (k.n) {
        link_calls(b, &k);
        link_times(b, &k);
        bool *drop = link_from_kernels(b, &k);
        drop_rows(b, drop);
        free(drop);
        add_missing(b, &k);
    }
    struct columns c = build_columns(b, TRACE_COLLECTIVE);
    uint32_t *order = columns_order(b->collectives.start_ns, b->collectives.n);
    columns_permute(&c, order);
    free(order);
    count_sequences(b);
    free(k.v);
}
