/* The last step of building: sort, link, lay out as a timeline. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "timeline/build.h"

/* After launches moved: order[new] = old. */
static void renumber(uint32_t *refs, size_t n, const uint32_t *now) {
    for (size_t i = 0; i < n; i++)
        if (refs[i] != TIMELINE_NONE) refs[i] = now[refs[i]];
}

static void sort_launches(struct timeline_builder *b) {
    struct column list[BUILD_MAX_COLUMNS];
    uint32_t *order = columns_order(b->launches.start_ns, b->launches.n);
    if (!order) return;
    columns_permute(list, launch_columns_list(&b->launches, list), order, b->launches.n);
    uint32_t *now = xmalloc(b->launches.n * sizeof *now);
    for (size_t i = 0; i < b->launches.n; i++) now[order[i]] = (uint32_t)i;
    renumber(b->kernels.launch, b->kernels.n, now);
    renumber(b->copies.launch, b->copies.n, now);
    renumber(b->gemms.launch, b->gemms.n, now);
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
    struct column list[BUILD_MAX_COLUMNS];
    uint32_t *order = order_by_device(b, b->kernels.start_ns, b->kernels.lane, b->kernels.n);
    columns_permute(list, kernel_columns_list(&b->kernels, list), order, b->kernels.n);
    free(order);
    order = order_by_device(b, b->copies.start_ns, b->copies.lane, b->copies.n);
    columns_permute(list, copy_columns_list(&b->copies, list), order, b->copies.n);
    free(order);
    build_slice_devices(b);
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

/* By start; among equal starts the longer first, then the one that was outside when it was recorded. */
static int range_order(const void *a, const void *b, void *ranges) {
    const struct range_columns *r = ranges;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (r->end_ns[x] != r->end_ns[y]) return r->end_ns[x] > r->end_ns[y] ? -1 : 1;
    if (r->depth[x] != r->depth[y]) return r->depth[x] < r->depth[y] ? -1 : 1;
    return (x > y) - (x < y);
}

static void sort_ranges(struct timeline_builder *b) {
    struct range_columns *r = &b->ranges;
    struct column list[BUILD_MAX_COLUMNS];
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
    columns_permute(list, range_columns_list(r, list), order, r->n);
    free(order);
}

#define SORT(kind, key)                                                                        \
    do {                                                                                       \
        struct column list_[BUILD_MAX_COLUMNS];                                                \
        uint32_t *order_ = columns_order(b->kind##s.key, b->kind##s.n);                        \
        columns_permute(list_, kind##_columns_list(&b->kind##s, list_), order_, b->kind##s.n); \
        free(order_);                                                                          \
    } while (0)

static void sort_gemms(struct timeline_builder *b) {
    struct column list[BUILD_MAX_COLUMNS];
    uint64_t *start = xmalloc((b->gemms.n + 1) * sizeof *start);
    for (size_t i = 0; i < b->gemms.n; i++) start[i] = b->gemms.v[i].start_ns;
    uint32_t *order = columns_order(start, b->gemms.n);
    columns_permute(list, gemm_columns_list(&b->gemms, list), order, b->gemms.n);
    free(order);
    free(start);
}

static int window_order(const void *a, const void *b) {
    const struct timeline_window *x = a, *y = b;
    if (x->process != y->process) return x->process < y->process ? -1 : 1;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* A window is recorded when it opens, without an end, and again when it closes. */
static void settle_windows(struct timeline_builder *b) {
    struct timeline_window *w = b->windows.v;
    size_t n = 0;
    if (!b->windows.n) return;
    qsort(w, b->windows.n, sizeof *w, window_order);
    for (size_t i = 0; i < b->windows.n; i++) {
        bool closed_before = n && w[n - 1].process == w[i].process && w[n - 1].start_ns == w[i].start_ns;
        if (!closed_before) w[n++] = w[i];
    }
    b->windows.n = n;
    for (size_t i = 0; i < n; i++)
        if (w[i].end_ns == UINT64_MAX) w[i].end_ns = MAX(b->tl.end_ns, w[i].start_ns);
}

static void drop_column(void *column) {
    free(*(void **)column);
    *(void **)column = NULL;
}

/* What linking and sorting needed, and columns in which no record has anything. */
static void drop_scaffolding(struct timeline_builder *b) {
    drop_column(&b->kernels.correlation);
    drop_column(&b->copies.correlation);
    drop_column(&b->ranges.depth);
    if (!b->kernels.any_graph) drop_column(&b->kernels.graph);
    if (!b->kernels.any_node) drop_column(&b->kernels.graph_node);
    if (!b->ranges.any_flops) drop_column(&b->ranges.flops);
    if (!b->ranges.any_bytes) drop_column(&b->ranges.bytes);
    if (!b->ranges.any_payload) drop_column(&b->ranges.payload);
    intern_close(b->shape_ids);
    intern_close(b->lane_ids);
    intern_close(b->thread_ids);
    intern_close(b->device_ids);
    intern_close(b->set_ids);
    b->shape_ids = b->lane_ids = b->thread_ids = b->device_ids = b->set_ids = NULL;
}

static void extend(struct timeline *tl, const uint64_t *start_ns, const uint64_t *end_ns, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (start_ns[i] < tl->start_ns) tl->start_ns = start_ns[i];
        if (end_ns[i] > tl->end_ns) tl->end_ns = end_ns[i];
    }
}

static void set_bounds(struct timeline_builder *b) {
    struct timeline *tl = &b->tl;
    tl->start_ns = UINT64_MAX;
    tl->end_ns = 0;
    extend(tl, b->kernels.start_ns, b->kernels.end_ns, b->kernels.n);
    extend(tl, b->copies.start_ns, b->copies.end_ns, b->copies.n);
    extend(tl, b->launches.start_ns, b->launches.end_ns, b->launches.n);
    extend(tl, b->ranges.start_ns, b->ranges.end_ns, b->ranges.n);
    if (tl->start_ns == UINT64_MAX) tl->start_ns = 0;
}

static void lay_out_records(struct timeline_builder *b) {
    struct timeline *tl = &b->tl;
    const struct kernel_columns *k = &b->kernels;
    const struct copy_columns *c = &b->copies;
    const struct launch_columns *l = &b->launches;
    const struct range_columns *r = &b->ranges;
    const struct sync_columns *y = &b->syncs;
    const struct sample_columns *s = &b->samples;
    const struct power_columns *p = &b->powers;
    const struct token_columns *t = &b->tokens;
    tl->kernels = (struct timeline_kernels){ k->n,      k->start_ns, k->end_ns, k->shape,     k->lane,
                                             k->launch, k->range,    k->graph,  k->graph_node };
    tl->copies = (struct timeline_copies){ c->n,    c->start_ns, c->end_ns, c->bytes,
                                           c->lane, c->launch,   c->range,  c->kind };
    tl->launches = (struct timeline_launches){ l->n,     l->start_ns, l->end_ns,   l->correlation, l->thread,
                                               l->range, l->api,      l->api_kind, l->kernels };
    tl->ranges = (struct timeline_ranges){ r->n,     r->start_ns, r->end_ns, r->thread,   r->parent,
                                           r->name,  r->domain,   r->detail, r->category, r->flags,
                                           r->flops, r->bytes,    r->payload };
    tl->syncs = (struct timeline_syncs){ y->n,     y->start_ns, y->end_ns, y->thread,
                                         y->range, y->context,  y->stream, y->kind };
    tl->samples =
        (struct timeline_samples){ s->n, s->start_ns, s->end_ns, s->device, s->set, s->first, s->values.v };
    tl->powers =
        (struct timeline_powers){ p->n,      p->time_ns,    p->energy_mj,     p->throttle_reasons, p->device,
                                  p->sm_mhz, p->memory_mhz, p->temperature_c, p->power_mw };
    tl->gemms = (struct timeline_gemms){ b->gemms.n, b->gemms.v, b->gemms.launch };
    tl->tokens = (struct timeline_tokens){ t->n, t->time_ns, t->request, t->count, t->thread, t->kind };
}

static void lay_out_tables(struct timeline_builder *b) {
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
    tl->problems = b->problems.v;
    tl->nproblems = b->problems.n;
    tl->bad_records = b->bad_records;
    tl->owner = b;
}

static void sum_processes(struct timeline_builder *b) {
    for (size_t i = 0; i < b->processes.n; i++) {
        b->tl.unmatched_kernels += b->processes.v[i].unmatched_kernels;
        for (size_t k = 0; k < TRACE_KIND_END; k++) b->tl.lost[k] += b->processes.v[i].lost[k];
    }
}

void build_lay_out(struct timeline_builder *b) {
    set_bounds(b);
    settle_windows(b);
    lay_out_records(b);
    lay_out_tables(b);
}

static void warn_of_clocks(struct timeline_builder *b) {
    size_t relative = 0;
    for (size_t i = 0; i < b->processes.n; i++) relative += b->processes.v[i].relative_clock;
    if (relative && b->processes.n > 1)
        timeline_builder_problem(
            b,
            "%zu of %zu files have a clock of their own: their records cannot be laid beside "
            "those of the others in time",
            relative, b->processes.n);
}

struct timeline *timeline_builder_finish(struct timeline_builder *b) {
    build_end_process(b);
    build_merge_devices(b);
    build_merge_processes(b);
    warn_of_clocks(b);
    sort_launches(b);
    sort_device_work(b);
    sort_ranges(b);
    SORT(sync, start_ns);
    SORT(sample, start_ns);
    SORT(power, time_ns);
    SORT(token, time_ns);
    sort_gemms(b);
    build_nest(b);
    drop_scaffolding(b);
    build_lay_out(b);
    sum_processes(b);
    return &b->tl;
}

const char *timeline_text(const struct timeline *tl, uint32_t text) {
    const char *s = intern_text(((const struct timeline_builder *)tl->owner)->texts, text);
    return s ? s : "";
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
    struct column list[BUILD_MAX_COLUMNS];
    if (!b) return;
    columns_free(list, kernel_columns_list(&b->kernels, list));
    columns_free(list, copy_columns_list(&b->copies, list));
    columns_free(list, launch_columns_list(&b->launches, list));
    columns_free(list, range_columns_list(&b->ranges, list));
    columns_free(list, sync_columns_list(&b->syncs, list));
    columns_free(list, sample_columns_list(&b->samples, list));
    columns_free(list, power_columns_list(&b->powers, list));
    columns_free(list, gemm_columns_list(&b->gemms, list));
    columns_free(list, token_columns_list(&b->tokens, list));
    void *tables[] = { b->samples.values.v, b->shapes.v,         b->lanes.v,     b->threads.v,
                       b->devices.v,        b->device_process.v, b->processes.v, b->sets.v,
                       b->meta.v,           b->windows.v,        b->problems.v,  b->process_group };
    for (size_t i = 0; i < COUNTOF(tables); i++) free(tables[i]);
    struct intern *interns[] = {
        b->texts, b->shape_ids, b->lane_ids, b->thread_ids, b->device_ids, b->set_ids
    };
    for (size_t i = 0; i < COUNTOF(interns); i++)
        if (interns[i]) intern_close(interns[i]);
    free(b);
}
