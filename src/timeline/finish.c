/* The last step of building: sorts, links, and publishes the columns as a timeline. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "timeline/build.h"

/* Sorts the records of a kind by time, their first column. Returns the order; NULL: nothing moved. */
static uint32_t *sort_by_time(struct timeline_builder *b, enum trace_kind kind) {
    struct columns c = build_columns(b, kind);
    uint32_t *order = columns_order(*c.list[0].data, *c.n);
    columns_permute(&c, order);
    return order;
}

static void sort_launches(struct timeline_builder *b) {
    uint32_t *order = sort_by_time(b, TRACE_LAUNCH);
    if (!order) return;
    uint32_t *now = xmalloc(b->launches.n * sizeof *now);
    for (size_t i = 0; i < b->launches.n; i++) now[order[i]] = (uint32_t)i;
    build_renumber(b, "launch", now);
    free(now);
    free(order);
}

static uint32_t *order_by_device(const struct timeline_builder *b, const uint64_t *start_ns,
                                 const uint32_t *lane, size_t n) {
    uint32_t *order = columns_order(start_ns, n);
    if (b->devices.n < 2) return order;
    uint32_t *device = xmalloc((n + 1) * sizeof *device);
    for (size_t i = 0; i < n; i++) device[i] = b->lanes.v[lane[i]].device;
    order = columns_order_by(order, device, n, b->devices.n);
    free(device);
    return order;
}

static void sort_device_work(struct timeline_builder *b) {
    struct columns kernels = build_columns(b, TRACE_KERNEL), copies = build_columns(b, TRACE_COPY);
    uint32_t *order = order_by_device(b, b->kernels.start_ns, b->kernels.lane, b->kernels.n);
    columns_permute(&kernels, order);
    free(order);
    order = order_by_device(b, b->copies.start_ns, b->copies.lane, b->copies.n);
    columns_permute(&copies, order);
    free(order);
    build_slice_devices(b);
    build_label_devices(b);
}

void build_slice_devices(struct timeline_builder *b) {
    for (size_t i = 0; i < b->devices.n; i++) {
        struct timeline_device *d = &b->devices.v[i];
        d->first_kernel = d->kernel_count = d->first_copy = d->copy_count = 0;
    }
    for (size_t i = 0; i < b->kernels.n; i++) {
        struct timeline_device *d = &b->devices.v[b->lanes.v[b->kernels.lane[i]].device];
        if (!d->kernel_count++) d->first_kernel = i;
    }
    for (size_t i = 0; i < b->copies.n; i++) {
        struct timeline_device *d = &b->devices.v[b->lanes.v[b->copies.lane[i]].device];
        if (!d->copy_count++) d->first_copy = i;
    }
}

/* Orders ranges with equal starts: the longer range first; if equally long, the range with the lower recorded
 * depth first. */
static int range_order(const void *a, const void *b, void *ranges) {
    const struct range_columns *r = ranges;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (r->end_ns[x] != r->end_ns[y]) return r->end_ns[x] > r->end_ns[y] ? -1 : 1;
    if (r->depth[x] != r->depth[y]) return r->depth[x] < r->depth[y] ? -1 : 1;
    return (x > y) - (x < y);
}

static void sort_ranges(struct timeline_builder *b) {
    struct range_columns *r = &b->ranges;
    struct columns columns = build_columns(b, TRACE_RANGE);
    if (!r->n) return;
    uint32_t *order = columns_order(r->start_ns, r->n);
    if (!order) {
        order = xmalloc(r->n * sizeof *order);
        for (size_t i = 0; i < r->n; i++) order[i] = (uint32_t)i;
    }
    for (size_t i = 0, j; i < r->n; i = j) {
        for (j = i + 1; j < r->n && r->start_ns[order[j]] == r->start_ns[order[i]];) j++;
        if (j > i + 1) qsort_r(order + i, j - i, sizeof *order, range_order, r);
    }
    columns_permute(&columns, order);
    free(order);
}

/* Sorts the remaining kinds by time. No record refers to them by index. */
static void sort_others(struct timeline_builder *b) {
    for (unsigned kind = 0; kind < TRACE_KIND_END; kind++) {
        bool done = kind == TRACE_LAUNCH || kind == TRACE_KERNEL || kind == TRACE_COPY || kind == TRACE_RANGE;
        if (!done && build_columns(b, kind).count) free(sort_by_time(b, kind));
    }
}

static int window_order(const void *a, const void *b) {
    const struct timeline_window *x = a, *y = b;
    if (x->process != y->process) return x->process < y->process ? -1 : 1;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* A window is recorded when it opens, without an end, and again when it closes. Merges the two. A window that
 * was not closed ends with the next one of its process, or with the trace. Windows that overlap, which no
 * recorder writes, are joined. */
static void merge_windows(struct timeline_builder *b) {
    struct timeline_window *w = b->windows.v;
    size_t n = 0;
    if (!b->windows.n) return;
    qsort(w, b->windows.n, sizeof *w, window_order);
    for (size_t i = 0; i < b->windows.n; i++) {
        struct timeline_window *last = n && w[n - 1].process == w[i].process ? &w[n - 1] : NULL;
        if (last && last->start_ns == w[i].start_ns) continue;
        if (last && last->end_ns == UINT64_MAX) last->end_ns = w[i].start_ns;
        if (last && last->end_ns > w[i].start_ns)
            last->end_ns = MAX(last->end_ns, w[i].end_ns);
        else
            w[n++] = w[i];
    }
    b->windows.n = n;
    for (size_t i = 0; i < n; i++)
        if (w[i].end_ns == UINT64_MAX) w[i].end_ns = MAX(b->tl.end_ns, w[i].start_ns);
}

/* Frees data that is only used for linking and sorting. */
static void drop_scaffolding(struct timeline_builder *b) {
    for (unsigned kind = 0; kind < TRACE_KIND_END; kind++) {
        struct columns c = build_columns(b, kind);
        columns_drop_unused(&c);
    }
    intern_close(b->shape_ids);
    intern_close(b->lane_ids);
    intern_close(b->thread_ids);
    intern_close(b->device_ids);
    intern_close(b->set_ids);
    b->shape_ids = b->lane_ids = b->thread_ids = b->device_ids = b->set_ids = NULL;
}

static void extend_bounds(struct timeline *tl, const uint64_t *start_ns, const uint64_t *end_ns, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (start_ns[i] < tl->start_ns) tl->start_ns = start_ns[i];
        if (end_ns[i] > tl->end_ns) tl->end_ns = end_ns[i];
    }
}

static void set_bounds(struct timeline_builder *b) {
    struct timeline *tl = &b->tl;
    tl->start_ns = UINT64_MAX;
    tl->end_ns = 0;
    extend_bounds(tl, b->kernels.start_ns, b->kernels.end_ns, b->kernels.n);
    extend_bounds(tl, b->copies.start_ns, b->copies.end_ns, b->copies.n);
    extend_bounds(tl, b->launches.start_ns, b->launches.end_ns, b->launches.n);
    extend_bounds(tl, b->ranges.start_ns, b->ranges.end_ns, b->ranges.n);
    extend_bounds(tl, b->replays.start_ns, b->replays.end_ns, b->replays.n);
    if (tl->start_ns == UINT64_MAX) tl->start_ns = 0;
}

static void publish_records(struct timeline_builder *b) {
    struct timeline *tl = &b->tl;
#define COPY(type, name) .name = c->name,
#define X(KIND, record, columns)                                                                            \
    {                                                                                                       \
        const struct record##_columns *c = &b->columns;                                                     \
        tl->columns =                                                                                       \
            (struct timeline_##columns){ .n = c->n, TIMELINE_##KIND##_COLUMNS(COPY, COPY, TIMELINE_SKIP) }; \
    }
    TIMELINE_KINDS(X)
#undef X
#undef COPY
    tl->sample_values = b->sample_values.v;
}

static void publish_tables(struct timeline_builder *b) {
    struct timeline *tl = &b->tl;
    tl->shapes = b->shapes.v;
    tl->nshapes = b->shapes.n;
    tl->devices = b->devices.v;
    tl->ndevices = b->devices.n;
    tl->lanes = b->lanes.v;
    tl->nlanes = b->lanes.n;
    tl->threads = b->threads.v;
    tl->nthreads = b->threads.n;
    tl->processes = b->processes.v;
    tl->nprocesses = b->processes.n;
    tl->metric_sets = b->sets.v;
    tl->nmetric_sets = b->sets.n;
    tl->meta = b->meta.v;
    tl->nmeta = b->meta.n;
    tl->windows = b->windows.v;
    tl->nwindows = b->windows.n;
    tl->warnings = b->warnings.v;
    tl->nwarnings = b->warnings.n;
    tl->bad_records = b->bad_records;
    tl->owner = b;
}

static void sum_processes(struct timeline_builder *b) {
    for (size_t i = 0; i < b->processes.n; i++) {
        b->tl.unmatched_kernels += b->processes.v[i].unmatched_kernels;
        for (size_t k = 0; k < TRACE_KIND_END; k++) b->tl.lost[k] += b->processes.v[i].lost[k];
    }
}

void build_publish(struct timeline_builder *b) {
    set_bounds(b);
    merge_windows(b);
    publish_records(b);
    publish_tables(b);
}

static void check_clocks(struct timeline_builder *b) {
    size_t relative = 0, files = 0;
    for (size_t i = 0; i < b->processes.n; i++) {
        if (i && b->processes.v[i].path == b->processes.v[i - 1].path) continue; /* of the same file */
        files++;
        relative += b->processes.v[i].relative_clock;
    }
    if (relative && files > 1)
        timeline_builder_warning(
            b, "%zu of %zu files use a relative clock: their times cannot be compared with other files",
            relative, files);
}

struct timeline *timeline_builder_finish(struct timeline_builder *b) {
    build_end_process(b);
    build_merge_devices(b);
    build_merge_processes(b);
    check_clocks(b);
    sort_launches(b);
    sort_device_work(b);
    sort_ranges(b);
    sort_others(b);
    build_nest(b);
    build_collectives(b);
    drop_scaffolding(b);
    build_publish(b);
    sum_processes(b);
    return &b->tl;
}

bool timeline_has_ranks(const struct timeline *tl) {
    uint32_t first = TIMELINE_NONE;
    for (size_t i = 0; tl && i < tl->nprocesses; i++) {
        uint32_t rank = tl->processes[i].rank;
        if (rank == TIMELINE_NONE || rank == first) continue;
        if (first != TIMELINE_NONE) return true;
        first = rank;
    }
    return false;
}

const char *timeline_text(const struct timeline *tl, uint32_t text) {
    const char *s = intern_text(((const struct timeline_builder *)tl->owner)->texts, text);
    return s ? s : "";
}

const char *timeline_device_label(const struct timeline *tl, size_t device) {
    return device < tl->ndevices ? timeline_text(tl, tl->devices[device].label) : "";
}

const char *timeline_meta_value(const struct timeline *tl, const char *key) {
    for (size_t i = 0; i < tl->nmeta; i++)
        if (strcmp(timeline_text(tl, tl->meta[i].key), key) == 0) return timeline_text(tl, tl->meta[i].value);
    return NULL;
}

void timeline_close(struct timeline *tl) {
    if (tl) timeline_builder_close(tl->owner);
}

void timeline_builder_close(struct timeline_builder *b) {
    if (!b) return;
    for (unsigned kind = 0; kind < TRACE_KIND_END; kind++) {
        struct columns c = build_columns(b, kind);
        columns_free(&c);
    }
    void *tables[] = { b->sample_values.v, b->shapes.v,    b->lanes.v,      b->threads.v,
                       b->devices.v,       b->processes.v, b->sets.v,       b->meta.v,
                       b->windows.v,       b->warnings.v,  b->process_group };
    for (size_t i = 0; i < COUNTOF(tables); i++) free(tables[i]);
    struct intern *interns[] = {
        b->texts, b->shape_ids, b->lane_ids, b->thread_ids, b->device_ids, b->set_ids
    };
    for (size_t i = 0; i < COUNTOF(interns); i++)
        if (interns[i]) intern_close(interns[i]);
    free(b);
}
