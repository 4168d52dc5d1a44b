/* Links device work to the API call that launched it, by correlation id, within one process (link_split.c: a
 * file of several processes). */
#include <stdlib.h>

#include "base/die.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "timeline/build.h"

/* The launches of one file by correlation id. */
struct by_correlation {
    struct build_calls calls;
    struct build_owners owners; /* n 0: the file has one process */
};

/* Of a file with one process, all launches have owner 0. */
static uint32_t owner_of(const struct timeline_builder *b, const struct by_correlation *s, size_t i) {
    return s->owners.n ? s->owners.of_thread[b->launches.thread[build_calls_launch(&s->calls, i)]] : 0;
}

/* Returns the index of the first launch of the owner with the id among all launches, or TIMELINE_NONE. */
static uint32_t find_launch(const struct timeline_builder *b, struct by_correlation *s, uint64_t id,
                            uint32_t owner) {
    size_t end, at = build_calls_find(&s->calls, id, &end);
    for (size_t i = at; i < end; i++)
        if (owner_of(b, s, i) == owner) return build_calls_launch(&s->calls, i);
    return TIMELINE_NONE;
}

/* ---- caveats */

static void warn_of_shared_ids(struct timeline_builder *b, const struct by_correlation *s) {
    size_t shared = 0;
    for (size_t i = 1; i < s->calls.n; i++) {
        uint64_t id = build_calls_id(&s->calls, i);
        shared += id && id == build_calls_id(&s->calls, i - 1) && owner_of(b, s, i) != owner_of(b, s, i - 1);
    }
    if (!shared) return;
    struct strbuf unsure = STRBUF_INIT;
    if (s->owners.unsure_lanes)
        strbuf_addf(
            &unsure,
            "; %u stream%s can be of another one, and then times of steps and launches are wrong: import "
            "the trace of each process on its own",
            s->owners.unsure_lanes, s->owners.unsure_lanes == 1 ? "" : "s");
    timeline_builder_warning(b,
                             "%s: contains %u processes whose calls have the same correlation ids (%zu "
                             "times): each stream was assigned to one of them by the times of its work%s",
                             build_file_name(b), s->owners.n, shared, unsure.len ? unsure.buf : "");
    strbuf_free(&unsure);
}

static void warn_of_shared_streams(struct timeline_builder *b, size_t ambiguous) {
    if (ambiguous)
        timeline_builder_warning(
            b,
            "%s: %zu correlation id%s of work that more than one process can have started: it was assigned "
            "in "
            "the order of the calls, and times of steps and launches may be wrong; import the trace of each "
            "process on its own",
            build_file_name(b), ambiguous, ambiguous == 1 ? "" : "s");
}

static void warn_of_calls_apart(struct timeline_builder *b, size_t apart, size_t calls) {
    if (apart)
        timeline_builder_warning(
            b,
            "%s: %zu of %zu launches have the correlation id of another launch: the file contains several "
            "processes or recordings that cannot be separated, and times of steps and launches may be "
            "wrong; "
            "import each of them on its own",
            build_file_name(b), apart, calls);
}

/* ---- calls */

static bool launches_kernels(uint8_t kind) {
    return kind == TIMELINE_API_KERNEL || kind == TIMELINE_API_GRAPH;
}

/* The runtime's call contains the one of the driver. Calls apart are those of two processes. */
static bool are_apart(const struct launch_columns *l, uint32_t a, uint32_t b) {
    return l->thread[a] != l->thread[b] || l->start_ns[a] > l->end_ns[b] || l->start_ns[b] > l->end_ns[a];
}

/* Some sources list a call twice with one id, as runtime and as driver API. Only the first counts as a
 * launch. */
static void ignore_duplicates(struct timeline_builder *b, struct by_correlation *s,
                              struct timeline_process *p) {
    const struct build_calls *calls = &s->calls;
    if (!calls->n) return; /* the columns may be NULL */
    uint8_t *kind = b->launches.api_kind;
    size_t launches = 0, apart = 0;
    size_t *kept = xcalloc((size_t)s->owners.n + 1, sizeof *kept); /* per owner; the last one: unknown */
    for (size_t i = 0; i < calls->n; i++) {
        size_t *k = &kept[MIN(owner_of(b, s, i), s->owners.n)];
        bool is_first = *k == 0 || build_calls_id(calls, i) != build_calls_id(calls, *k - 1);
        uint32_t at = build_calls_launch(calls, i),
                 before = is_first ? at : build_calls_launch(calls, *k - 1);
        launches += launches_kernels(kind[at]);
        if (build_calls_id(calls, i) == 0 || is_first) {
            *k = i + 1;
            continue;
        }
        p->repeated_correlations++;
        if (!launches_kernels(kind[at]) || !launches_kernels(kind[before])) continue;
        apart += are_apart(&b->launches, at, before);
        kind[at] = TIMELINE_API_OTHER;
    }
    free(kept);
    warn_of_calls_apart(b, apart, launches);
}

/* An unknown call that launched a kernel is a kernel or graph launch. */
static void classify_unknown_call(struct launch_columns *l, uint32_t launch, bool graph) {
    if (l->api_kind[launch] == TIMELINE_API_OTHER)
        l->api_kind[launch] = graph ? TIMELINE_API_GRAPH : TIMELINE_API_KERNEL;
}

/* ---- work on devices */

static void link_one_process(struct timeline_builder *b, struct by_correlation *s) {
    for (size_t i = b->segment.first[TRACE_KERNEL]; i < b->kernels.n; i++)
        b->kernels.launch[i] = find_launch(b, s, b->kernels.correlation[i], 0);
    s->calls.hint = 0;
    for (size_t i = b->segment.first[TRACE_COPY]; i < b->copies.n; i++)
        b->copies.launch[i] = find_launch(b, s, b->copies.correlation[i], 0);
}

static void count_kernels(struct timeline_builder *b, struct timeline_process *p) {
    const struct kernel_columns *k = &b->kernels;
    for (size_t i = b->segment.first[TRACE_KERNEL]; i < k->n; i++) {
        uint32_t launch = k->launch[i];
        p->kernels++;
        p->unmatched_kernels += launch == TIMELINE_NONE;
        if (launch == TIMELINE_NONE) continue;
        b->launches.kernels[launch]++;
        classify_unknown_call(&b->launches, launch, k->graph[i] != 0);
    }
}

static void link_gemms(struct timeline_builder *b, struct by_correlation *s) {
    s->calls.hint = 0;
    for (size_t i = b->segment.first[TRACE_GEMM]; i < b->gemms.n; i++) {
        uint32_t owner = s->owners.n ? s->owners.of_thread[b->gemms.v[i].thread] : 0;
        b->gemms.launch[i] = find_launch(b, s, b->gemms.v[i].correlation, owner);
    }
}

static void count_launches(const struct timeline_builder *b, struct timeline_process *p) {
    const struct launch_columns *l = &b->launches;
    for (size_t i = b->segment.first[TRACE_LAUNCH]; i < l->n; i++) {
        if (!launches_kernels(l->api_kind[i])) continue;
        p->launches++;
        p->unmatched_launches += !l->kernels[i];
    }
    p->has_launches = p->launches > 0;
    if (!p->has_launches) p->unmatched_kernels = 0; /* kernels of this file are matched by time instead */
}

/* Counts the launches and kernels of each process of the file, of which the first is `file`. */
static void count_per_process(struct timeline_builder *b, size_t file) {
    struct timeline_process *p = b->processes.v;
    for (size_t i = file; i < b->processes.n; i++)
        p[i].launches = p[i].unmatched_launches = p[i].kernels = p[i].unmatched_kernels = 0;
    for (size_t i = b->segment.first[TRACE_LAUNCH]; i < b->launches.n; i++) {
        if (!launches_kernels(b->launches.api_kind[i])) continue;
        struct timeline_process *of = &p[b->threads.v[b->launches.thread[i]].process];
        of->launches++;
        of->unmatched_launches += !b->launches.kernels[i];
    }
    for (size_t i = file; i < b->processes.n; i++) p[i].has_launches = p[i].launches > 0;
    for (size_t i = b->segment.first[TRACE_KERNEL]; i < b->kernels.n; i++) {
        struct timeline_process *of = &p[b->lanes.v[b->kernels.lane[i]].process];
        of->kernels++;
        of->unmatched_kernels += of->has_launches && b->kernels.launch[i] == TIMELINE_NONE;
    }
}

void build_link_process(struct timeline_builder *b) {
    size_t file = b->processes.n - 1, ambiguous;
    struct timeline_process *p = &b->processes.v[file];
    struct by_correlation s = { 0 };
    build_calls_open(&s.calls, b);
    bool several = build_owners_open(&s.owners, b);
    ignore_duplicates(b, &s, p);
    if (several) {
        build_owners_elect(&s.owners, b, &s.calls);
        ambiguous = build_owners_link(b, &s.owners, &s.calls);
        warn_of_shared_ids(b, &s);
        warn_of_shared_streams(b, ambiguous);
    } else {
        link_one_process(b, &s);
    }
    link_gemms(b, &s);
    count_kernels(b, p);
    count_launches(b, p);
    /* without launches, nothing says which process uses a device */
    if (several && (p->has_launches || s.owners.any_known)) {
        build_owners_split(b, &s.owners);
        count_per_process(b, file);
    }
    build_owners_close(&s.owners);
    build_calls_close(&s.calls);
}
