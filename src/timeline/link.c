/* Links device work to the API call that launched it, by correlation id, within one process (split.c: several
 * processes in one file). Ids usually
 * ascend on both sides, so a search starts where the previous search ended. */
#include <stdlib.h>

#include "base/bisect.h"
#include "base/die.h"
#include "base/file.h"
#include "base/util.h"
#include "timeline/build.h"

/* The launches of one process by correlation id. */
struct by_correlation {
    const uint64_t *correlation; /* correlation ids of the process's launches */
    uint32_t *order;             /* launches sorted by id; NULL: already in order */
    size_t n, hint;
    struct build_owners owners; /* n 0: the file has one process */
};

static uint64_t correlation_at(const struct by_correlation *s, size_t i) {
    return s->correlation[s->order ? s->order[i] : i];
}

struct wanted_id {
    const struct by_correlation *s;
    uint64_t id;
};

static bool is_lower(const void *arg, size_t i) {
    const struct wanted_id *w = arg;
    return correlation_at(w->s, i) < w->id;
}

/* Returns the first position whose id is at least `id`; n if there is none. Searches exponentially from the
 * hint, then bisects. */
static size_t find_id(struct by_correlation *s, uint64_t id) {
    size_t lo = 0, hi = s->n, step = 1, at = MIN(s->hint, s->n);
    if (at < s->n && correlation_at(s, at) < id) {
        for (lo = at + 1; lo + step < s->n && correlation_at(s, lo + step) < id; step *= 2) lo += step + 1;
        hi = MIN(s->n, lo + step + 1);
    } else {
        for (hi = at; step < hi && correlation_at(s, hi - step) >= id; step *= 2) hi -= step;
        lo = hi > step ? hi - step : 0;
    }
    return s->hint = bisect(lo, hi, is_lower, &(struct wanted_id){ s, id });
}

static uint32_t launch_at(const struct timeline_builder *b, const struct by_correlation *s, size_t i) {
    return (uint32_t)(b->segment.first[TRACE_LAUNCH] + (s->order ? s->order[i] : i));
}

/* Of a file with one process, all launches have owner 0. */
static uint32_t owner_of(const struct timeline_builder *b, const struct by_correlation *s, size_t i) {
    return s->owners.n ? s->owners.of_thread[b->launches.thread[launch_at(b, s, i)]] : 0;
}

/* Returns the launch of an owner, else the first, of the launches with the id of position `at`. Examines at
 * most SAME_ID launches. */
#define SAME_ID 256
static uint32_t launch_of_owner(const struct timeline_builder *b, const struct by_correlation *s, size_t at,
                                uint32_t owner) {
    for (size_t i = at; i < MIN(s->n, at + SAME_ID) && correlation_at(s, i) == correlation_at(s, at); i++)
        if (owner_of(b, s, i) == owner) return launch_at(b, s, i);
    return launch_at(b, s, at);
}

/* Returns the index of the launch among all launches, or TIMELINE_NONE. lane: of the work; TIMELINE_NONE:
 * unknown. */
static uint32_t find_launch(const struct timeline_builder *b, struct by_correlation *s, uint64_t id,
                            uint32_t lane) {
    if (!id) return TIMELINE_NONE;
    size_t at = find_id(s, id);
    if (at == s->n || correlation_at(s, at) != id) return TIMELINE_NONE;
    if (!s->owners.n || lane == TIMELINE_NONE) return launch_at(b, s, at);
    return launch_of_owner(b, s, at, s->owners.of_lane[lane]);
}

/* ---- several processes in the file */

static void vote(struct timeline_builder *b, struct by_correlation *s, uint64_t id, uint32_t lane,
                 uint64_t start_ns) {
    const struct launch_columns *l = &b->launches;
    size_t at = id ? find_id(s, id) : s->n;
    for (size_t i = at; i < MIN(s->n, at + SAME_ID) && correlation_at(s, i) == id; i++) {
        uint32_t launch = launch_at(b, s, i);
        build_owners_vote(&s->owners, lane, l->thread[launch], l->start_ns[launch], start_ns);
    }
}

/* Finds the process of each lane. */
static void find_owners(struct timeline_builder *b, struct by_correlation *s) {
    const struct kernel_columns *k = &b->kernels;
    const struct copy_columns *c = &b->copies;
    if (!build_owners_open(&s->owners, b)) return;
    for (size_t i = b->segment.first[TRACE_KERNEL]; i < k->n; i++)
        vote(b, s, k->correlation[i], k->lane[i], k->start_ns[i]);
    s->hint = 0;
    for (size_t i = b->segment.first[TRACE_COPY]; i < c->n; i++)
        vote(b, s, c->correlation[i], c->lane[i], c->start_ns[i]);
    s->hint = 0;
    build_owners_elect(&s->owners, b);
}

static void warn_of_shared_ids(struct timeline_builder *b, const struct by_correlation *s) {
    size_t shared = 0;
    for (size_t i = 1; i < s->n; i++)
        shared += correlation_at(s, i) && correlation_at(s, i) == correlation_at(s, i - 1) &&
                  owner_of(b, s, i) != owner_of(b, s, i - 1);
    if (shared)
        timeline_builder_warning(
            b,
            "%s: contains %u processes whose calls have the same correlation ids (%zu "
            "times): each stream was assigned to one of them by the times of its work",
            file_basename(intern_text(b->texts, b->processes.v[b->processes.n - 1].path)), s->owners.n,
            shared);
}

static bool launches_kernels(uint8_t kind) {
    return kind == TIMELINE_API_KERNEL || kind == TIMELINE_API_GRAPH;
}

/* Some sources list a call twice with one id, as runtime and as driver API. Only the first counts as a
 * launch. */
static void ignore_duplicates(struct timeline_builder *b, struct by_correlation *s,
                              struct timeline_process *p) {
    if (!s->n) return; /* the columns may be NULL */
    uint8_t *kind = b->launches.api_kind;
    size_t *kept = xcalloc((size_t)s->owners.n + 1, sizeof *kept); /* per owner; the last one: unknown */
    for (size_t i = 0; i < s->n; i++) {
        size_t *k = &kept[MIN(owner_of(b, s, i), s->owners.n)];
        bool is_first = *k == 0 || correlation_at(s, i) != correlation_at(s, *k - 1);
        uint32_t at = launch_at(b, s, i), before = is_first ? at : launch_at(b, s, *k - 1);
        if (correlation_at(s, i) == 0 || is_first) {
            *k = i + 1;
            continue;
        }
        p->repeated_correlations++;
        if (launches_kernels(kind[at]) && launches_kernels(kind[before])) kind[at] = TIMELINE_API_OTHER;
    }
    free(kept);
}

/* An unknown call that launched a kernel is a kernel or graph launch. */
static void classify_unknown_call(struct launch_columns *l, uint32_t launch, bool graph) {
    if (l->api_kind[launch] == TIMELINE_API_OTHER)
        l->api_kind[launch] = graph ? TIMELINE_API_GRAPH : TIMELINE_API_KERNEL;
}

static void link_kernels(struct timeline_builder *b, struct by_correlation *s, struct timeline_process *p) {
    struct kernel_columns *k = &b->kernels;
    for (size_t i = b->segment.first[TRACE_KERNEL]; i < k->n; i++) {
        uint32_t launch = k->launch[i] = find_launch(b, s, k->correlation[i], k->lane[i]);
        if (launch == TIMELINE_NONE) {
            p->unmatched_kernels++;
            continue;
        }
        b->launches.kernels[launch]++;
        classify_unknown_call(&b->launches, launch, k->graph[i] != 0);
    }
}

static void count_launches(const struct timeline_builder *b, struct timeline_process *p) {
    const struct launch_columns *l = &b->launches;
    for (size_t i = b->segment.first[TRACE_LAUNCH]; i < l->n; i++) {
        if (!launches_kernels(l->api_kind[i])) continue;
        p->launches++;
        p->unmatched_launches += !l->kernels[i];
    }
}

void build_link_process(struct timeline_builder *b) {
    struct timeline_process *p = &b->processes.v[b->processes.n - 1];
    size_t first = b->segment.first[TRACE_LAUNCH], n = b->launches.n - first;
    struct by_correlation s = { .correlation = n ? b->launches.correlation + first : NULL, .n = n };
    if (n) s.order = columns_order(s.correlation, n);
    p->kernels = b->kernels.n - b->segment.first[TRACE_KERNEL];
    find_owners(b, &s);
    ignore_duplicates(b, &s, p);
    link_kernels(b, &s, p);
    s.hint = 0;
    for (size_t i = b->segment.first[TRACE_COPY]; i < b->copies.n; i++)
        b->copies.launch[i] = find_launch(b, &s, b->copies.correlation[i], b->copies.lane[i]);
    for (size_t i = b->segment.first[TRACE_GEMM]; i < b->gemms.n; i++)
        b->gemms.launch[i] = find_launch(b, &s, b->gemms.v[i].correlation, TIMELINE_NONE);
    if (s.owners.n) warn_of_shared_ids(b, &s);
    count_launches(b, p);
    p->has_launches = p->launches > 0;
    if (!p->has_launches) p->unmatched_kernels = 0; /* kernels of this file are matched by time instead */
    if (s.owners.n && p->has_launches) build_owners_split(b, &s.owners);
    build_owners_close(&s.owners);
    free(s.order);
}
