#include "analyze/trace_stats.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/kernel_name.h"
#include "analyze/trace_stats_internal.h"
#include "base/util.h"
#include "base/vec.h"
#include "trace/reader.h"

void trace_stats_init(struct trace_stats *st) {
    memset(st, 0, sizeof *st);
    st->names = intern_open();
    st->skew = (struct trace_stats_skew){ .mean_ns = NAN, .max_ns = NAN, .slowest = SIZE_MAX };
    for (unsigned i = 0; i < TRACE_COPY_KIND_END; i++) st->copies[i].kind = (enum trace_copy_kind)i;
}

void trace_stats_free(struct trace_stats *st) {
    for (size_t i = 0; i < st->ranks.n; i++) free(st->ranks.v[i].comm_starts.v);
    free(st->events.v);
    free(st->problems.v);
    free(st->kernels.v);
    free(st->ops.v);
    free(st->stages.v);
    free(st->gpus.v);
    free(st->streams.v);
    free(st->ranks.v);
    free(st->kernel_index.v);
    free(st->op_index.v);
    free(st->stage_index.v);
    intern_close(st->names);
    memset(st, 0, sizeof *st);
}

const char *trace_stats_name(const struct trace_stats *st, uint32_t name) {
    return name == INTERN_NONE ? NULL : intern_text(st->names, name);
}

/* ---- rows by name */

static uint32_t *index_slot(struct trace_stats_index *ix, uint32_t name) {
    while (ix->n <= name) vec_push(ix, 0);
    return &ix->v[name];
}

static bool is_communication(const char *name) {
    struct kernel_name kn;
    kernel_name_parse(&kn, name);
    bool yes = kn.category == KERNEL_CATEGORY_COMMUNICATION;
    kernel_name_free(&kn);
    return yes;
}

uint32_t trace_stats_kernel_row(struct trace_stats *st, uint32_t name) {
    uint32_t *slot = index_slot(&st->kernel_index, name);
    if (!*slot) {
        struct trace_stats_kernel row = { .name = name,
                                          .comm = is_communication(intern_text(st->names, name)) };
        vec_push(&st->kernels, row);
        *slot = (uint32_t)st->kernels.n;
    }
    return *slot - 1;
}

uint32_t trace_stats_op_row(struct trace_stats *st, uint32_t name) {
    uint32_t *slot = index_slot(&st->op_index, name);
    if (!*slot) {
        vec_push(&st->ops, (struct trace_stats_op){ .name = name });
        *slot = (uint32_t)st->ops.n;
    }
    return *slot - 1;
}

uint32_t trace_stats_stage_row(struct trace_stats *st, uint32_t name) {
    uint32_t *slot = index_slot(&st->stage_index, name);
    if (!*slot) {
        vec_push(&st->stages, (struct trace_stats_op){ .name = name });
        *slot = (uint32_t)st->stages.n;
    }
    return *slot - 1;
}

void trace_stats_problem(struct trace_stats *st, const char *name, uint64_t count) {
    uint32_t id = intern_str(st->names, name);
    for (size_t i = 0; i < st->problems.n; i++)
        if (st->problems.v[i].name == id) {
            st->problems.v[i].count += count;
            return;
        }
    if (count) vec_push(&st->problems, ((struct trace_stats_count){ id, count }));
}

void trace_stats_event(struct trace_stats *st, const char *name, uint64_t count) {
    uint32_t id = intern_str(st->names, name);
    for (size_t i = 0; i < st->events.n; i++)
        if (st->events.v[i].name == id) {
            st->events.v[i].count += count;
            return;
        }
    if (count) vec_push(&st->events, ((struct trace_stats_count){ id, count }));
}

void trace_stats_add_kernel(struct trace_stats *st, const char *name, size_t len, uint64_t calls,
                            uint64_t total_ns) {
    uint32_t at = trace_stats_kernel_row(st, intern_id(st->names, name, len));
    struct trace_stats_kernel *row = &st->kernels.v[at];
    row->calls += calls;
    row->total_ns += total_ns;
    st->kernel_calls += calls;
    st->kernel_ns += total_ns;
}

/* ---- one trace */

static int by_correlation(const void *pa, const void *pb) {
    const struct stats_launch *a = pa, *b = pb;
    if (a->correlation != b->correlation) return a->correlation < b->correlation ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* The call that launched the work. Ids may repeat: then the last call before the work began. */
static const struct stats_launch *launch_of(const struct stats_trace *t, const struct stats_work *w) {
    size_t lo = 0, hi = t->launches.n;
    while (lo < hi) { /* first entry past (correlation, start) */
        size_t mid = lo + (hi - lo) / 2;
        const struct stats_launch *l = &t->launches.v[mid];
        if (l->correlation < w->correlation ||
            (l->correlation == w->correlation && l->start_ns <= w->start_ns))
            lo = mid + 1;
        else
            hi = mid;
    }
    const struct stats_launch *all = t->launches.v;
    if (lo > 0 && all[lo - 1].correlation == w->correlation) return &all[lo - 1];
    if (lo < t->launches.n && all[lo].correlation == w->correlation) return &all[lo];
    return NULL;
}

/* Device work as launches, for operators and for stages. */
static void sweep(struct trace_stats *st, struct stats_trace *t) {
    TRACE_STATS_VEC(struct sweep_launch) launched = { 0 };
    uint64_t orphans = 0, duplicates = 0;
    sort_if_any(t->launches.v, t->launches.n, sizeof *t->launches.v, by_correlation);
    for (size_t i = 1; i < t->launches.n; i++)
        duplicates += t->launches.v[i].correlation == t->launches.v[i - 1].correlation;
    for (size_t i = 0; i < t->work.n; i++) {
        const struct stats_work *w = &t->work.v[i];
        const struct stats_launch *l = w->correlation ? launch_of(t, w) : NULL;
        orphans += !l;
        if (!l) continue;
        struct sweep_launch s = { l->start_ns, w->end_ns - w->start_ns, l->thread };
        vec_push(&launched, s);
    }
    trace_sweep(t->ops.v, t->ops.n, launched.v, launched.n, st->ops.v, st->ops.n);
    trace_sweep(t->stages.v, t->stages.n, launched.v, launched.n, st->stages.v, st->stages.n);
    free(launched.v);
    trace_stats_problem(st, "no_launch", orphans);
    trace_stats_problem(st, "duplicate_correlation", duplicates);
}

static int64_t meta_number(const struct trace_reader *r, const char *key) {
    const char *text = trace_reader_meta(r, key);
    if (!text || !isdigit((unsigned char)text[0])) return -1;
    return strtoll(text, NULL, 10);
}

int trace_stats_read(struct trace_stats *st, const struct trace_reader *r, const char *path,
                     struct err *err) {
    struct stats_trace t = { 0 };
    const char *clock = trace_reader_meta(r, "clock");
    struct trace_stats_rank rank = {
        .file = st->files,
        .path = intern_str(st->names, path),
        .rank = meta_number(r, "rank"),
        .world_size = meta_number(r, "world_size"),
        .unix_clock = clock && strcmp(clock, "unix") == 0,
        .late_ns = NAN,
    };
    int rc = trace_stats_gather(st, r, &t, err);
    if (rc == 0) {
        sweep(st, &t);
        trace_stats_devices(st, &t, r, &rank);
        vec_push(&st->ranks, rank);
        st->files++;
    }
    free(t.work.v);
    free(t.launches.v);
    free(t.ops.v);
    free(t.stages.v);
    return rc;
}

/* ---- the end */

/* whose names the comparisons use; one thread, set by finish alone */
static const struct trace_stats *sorting;

static int by_name(uint32_t a, uint32_t b) {
    return strcmp(intern_text(sorting->names, a), intern_text(sorting->names, b));
}
static int kernels_first(const void *pa, const void *pb) {
    const struct trace_stats_kernel *a = pa, *b = pb;
    if (a->total_ns != b->total_ns) return a->total_ns > b->total_ns ? -1 : 1;
    return by_name(a->name, b->name);
}
static int ops_first(const void *pa, const void *pb) {
    const struct trace_stats_op *a = pa, *b = pb;
    if (a->total_ns != b->total_ns) return a->total_ns > b->total_ns ? -1 : 1;
    return by_name(a->name, b->name);
}
static int counts_by_name(const void *pa, const void *pb) {
    const struct trace_stats_count *a = pa, *b = pb;
    return by_name(a->name, b->name);
}

void trace_stats_finish(struct trace_stats *st) {
    sorting = st;
    sort_if_any(st->kernels.v, st->kernels.n, sizeof *st->kernels.v, kernels_first);
    sort_if_any(st->ops.v, st->ops.n, sizeof *st->ops.v, ops_first);
    sort_if_any(st->stages.v, st->stages.n, sizeof *st->stages.v, ops_first);
    sort_if_any(st->events.v, st->events.n, sizeof *st->events.v, counts_by_name);
    sort_if_any(st->problems.v, st->problems.n, sizeof *st->problems.v, counts_by_name);
    trace_stats_compare_ranks(st);
}
