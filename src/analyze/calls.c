/* Host calls per stage: launches, copies, synchronisations. */
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/die.h"

/* Returns the innermost occurrence that contains the range or is the range; ANALYSIS_NONE: none. If the trace
 * marks no stages, returns occurrence 0, which is the whole trace. */
static uint32_t occurrence_of(const struct context *c, uint32_t range) {
    if (c->a->stages[0].implicit) return 0;
    return range == TIMELINE_NONE ? ANALYSIS_NONE : c->range_occurrence[range];
}

static void count_launch(struct context *c, size_t i, uint32_t row, double interval_ns, bool missing) {
    const struct timeline_launches *l = &c->tl->launches;
    struct analysis_stage *s = &c->a->stages[row];
    struct stage_scratch *w = &c->stage_scratch[row];
    bool graph = l->api_kind[i] == TIMELINE_API_GRAPH;
    s->launches++;
    s->graph_launches += graph;
    w->graph_nodes +=
        graph && l->kernels[i] > 1 ? l->kernels[i] : 0; /* 1: the whole graph was recorded as one kernel */
    w->unmatched_launches += missing;
    stream_stats_add(&w->launch_cost, (double)(l->end_ns[i] - l->start_ns[i]));
    if (interval_ns > 0) stream_stats_add(&w->launch_interval, interval_ns);
}

/* Visits the stage rows of a record, from the innermost to the outermost. A record in no stage has only
 * the outside row. */
#define FOR_ROWS(c, occurrence, row)                                                           \
    for (uint32_t o_ = (occurrence),                                                           \
                  row = o_ == ANALYSIS_NONE ? (c)->outside : (c)->a->occurrences[o_].stage;    \
         row != ANALYSIS_NONE; o_ = o_ == ANALYSIS_NONE ? o_ : (c)->a->occurrences[o_].parent, \
                  row = o_ == ANALYSIS_NONE ? ANALYSIS_NONE : (c)->a->occurrences[o_].stage)

/* Returns, per thread, the last launch with a recorded kernel, or 0. Later launches may still have been
 * queued when recording ended. */
static uint32_t *last_met(const struct context *c) {
    const struct timeline_launches *l = &c->tl->launches;
    uint32_t *last = xcalloc(c->tl->nthreads + 1, sizeof *last);
    for (size_t i = 0; i < l->n; i++)
        if (l->kernels[i]) last[l->thread[i]] = (uint32_t)i;
    return last;
}

/* Counts a launch in every occurrence that encloses it. If the launch has no kernel and follows the thread's
 * last launch that has one (`last_met`), recording probably ended before its kernel ran. The occurrences are
 * then marked unfinished, and the first such launch of a process is remembered. */
static void count_in_occurrences(struct context *c, size_t launch, uint32_t last_met) {
    const struct timeline_launches *l = &c->tl->launches;
    bool cut_off = !l->kernels[launch] && launch > last_met && l->kernels[last_met];
    uint32_t *queued = &c->queued_launch[c->tl->threads[l->thread[launch]].process];
    if (cut_off && (*queued == TIMELINE_NONE || l->start_ns[launch] < l->start_ns[*queued]))
        *queued = (uint32_t)launch;
    for (uint32_t o = c->launch_occurrence[launch]; o != ANALYSIS_NONE; o = c->a->occurrences[o].parent) {
        c->a->occurrences[o].launches++;
        c->a->occurrences[o].unfinished |= cut_off;
    }
}

static void count_launches(struct context *c) {
    const struct timeline_launches *l = &c->tl->launches;
    size_t bytes = (c->tl->nthreads + 1) * sizeof(uint32_t);
    uint32_t *last = xmalloc(bytes), *asked = xmalloc(bytes), *met = last_met(c);
    bool *captured = stream_captures(c->tl);
    memset(last, 0xff, bytes);
    memset(asked, 0xff, bytes);
    c->previous_launch = xmalloc((l->n + 1) * sizeof *c->previous_launch);
    c->queued_launch = xmalloc((c->tl->nprocesses + 1) * sizeof *c->queued_launch);
    memset(c->queued_launch, 0xff, (c->tl->nprocesses + 1) * sizeof *c->queued_launch);
    for (size_t i = 0; i < l->n; i++) {
        uint32_t thread = l->thread[i];
        c->previous_launch[i] = last[thread];
        last[thread] = (uint32_t)i;
        if (l->api_kind[i] != TIMELINE_API_KERNEL && l->api_kind[i] != TIMELINE_API_GRAPH) continue;
        c->captured_launches += captured[i];
        if (captured[i]) continue;
        uint32_t occurrence = c->launch_occurrence[i], before = asked[thread];
        bool together = before != TIMELINE_NONE && c->launch_occurrence[before] == occurrence;
        bool missing = !l->kernels[i] && i < met[thread] &&
                       captured_at(c->tl, c->tl->threads[thread].process, l->start_ns[i]);
        double interval = together ? (double)(l->start_ns[i] - l->start_ns[before]) : 0;
        asked[thread] = (uint32_t)i;
        c->a->launches_total++;
        FOR_ROWS(c, occurrence, row) count_launch(c, i, row, interval, missing);
        count_in_occurrences(c, i, met[thread]);
    }
    free(last);
    free(asked);
    free(met);
    free(captured);
}

static void count_copies(struct context *c) {
    const struct timeline_copies *k = &c->tl->copies;
    for (size_t i = 0; i < k->n; i++) {
        uint32_t launch = k->launch[i];
        uint32_t o = c->copy_occurrence        ? c->copy_occurrence[i]
                     : launch == TIMELINE_NONE ? occurrence_of(c, k->range[i])
                                               : c->launch_occurrence[launch];
        FOR_ROWS(c, o, row) {
            struct analysis_stage *s = &c->a->stages[row];
            s->copies++;
            s->copied_bytes += (double)k->bytes[i];
            s->copy_ns += (double)(k->end_ns[i] - k->start_ns[i]);
            if (k->kind[i] == TRACE_COPY_HTOD) s->htod_bytes += (double)k->bytes[i];
            if (k->kind[i] == TRACE_COPY_DTOH) s->dtoh_bytes += (double)k->bytes[i];
        }
    }
}

static void count_syncs(struct context *c) {
    const struct timeline_syncs *y = &c->tl->syncs;
    for (size_t i = 0; i < y->n; i++) {
        if (y->kind[i] == TRACE_SYNC_STREAM_WAIT) continue; /* blocks the device, not the host */
        uint32_t o = c->a->recognised
                         ? analysis_step_at(c, c->tl->threads[y->thread[i]].process, y->start_ns[i])
                         : occurrence_of(c, y->range[i]);
        FOR_ROWS(c, o, row) {
            c->a->stages[row].syncs++;
            c->a->stages[row].sync_ns += (double)(y->end_ns[i] - y->start_ns[i]);
        }
    }
}

static void count_finished(struct context *c) {
    struct analysis *a = c->a;
    for (size_t i = 0; i < a->noccurrences; i++)
        a->stages[a->occurrences[i].stage].finished += !a->occurrences[i].unfinished;
    for (size_t i = 0; i < a->nstages; i++)
        if (!a->stages[i].finished || a->recognised || c->in->one_run)
            a->stages[i].finished = a->stages[i].occurrences;
}

void analyze_calls(struct context *c) {
    count_launches(c);
    count_copies(c);
    count_syncs(c);
    count_finished(c);
}
