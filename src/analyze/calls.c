/* What the host did in each stage: launches, copies, synchronisations. */
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/die.h"

/* In a capture window, or no window was set: a kernel was to be recorded. */
static bool was_recorded(const struct timeline *tl, uint64_t time_ns) {
    for (size_t i = 0; i < tl->nwindows; i++)
        if (time_ns >= tl->windows[i].start_ns && time_ns < tl->windows[i].end_ns) return true;
    return !tl->nwindows;
}

/* The stage row a record counts in, and then its parents: next_row steps outwards. */
static uint32_t occurrence_of(const struct context *c, uint32_t range) {
    if (c->a->stages[0].implicit) return 0;
    return range == TIMELINE_NONE ? ANALYSIS_NONE : c->range_occurrence[range];
}

static void count_launch(struct context *c, size_t i, uint32_t row, double interval_ns) {
    const struct timeline_launches *l = &c->tl->launches;
    struct analysis_stage *s = &c->a->stages[row];
    struct stage_work *w = &c->stage_work[row];
    s->launches++;
    s->graph_launches += l->api_kind[i] == TIMELINE_API_GRAPH;
    w->unmatched_launches += !l->kernels[i] && was_recorded(c->tl, l->start_ns[i]);
    stream_stats_add(&w->launch_cost, (double)(l->end_ns[i] - l->start_ns[i]));
    if (interval_ns > 0) stream_stats_add(&w->launch_interval, interval_ns);
}

/* Rows from the innermost outwards; the outside row for what is in none. */
#define FOR_ROWS(c, occurrence, row)                                                           \
    for (uint32_t o_ = (occurrence),                                                           \
                  row = o_ == ANALYSIS_NONE ? (c)->outside : (c)->a->occurrences[o_].stage;    \
         row != ANALYSIS_NONE; o_ = o_ == ANALYSIS_NONE ? o_ : (c)->a->occurrences[o_].parent, \
                  row = o_ == ANALYSIS_NONE ? ANALYSIS_NONE : (c)->a->occurrences[o_].stage)

static void count_launches(struct context *c) {
    const struct timeline_launches *l = &c->tl->launches;
    uint32_t *last = xmalloc((c->tl->nthreads + 1) * sizeof *last),
             *asked = xmalloc((c->tl->nthreads + 1) * sizeof *asked);
    memset(last, 0xff, (c->tl->nthreads + 1) * sizeof *last);
    memset(asked, 0xff, (c->tl->nthreads + 1) * sizeof *asked);
    c->previous_launch = xmalloc((l->n + 1) * sizeof *c->previous_launch);
    for (size_t i = 0; i < l->n; i++) {
        c->previous_launch[i] = last[l->thread[i]];
        last[l->thread[i]] = (uint32_t)i;
        if (l->api_kind[i] != TIMELINE_API_KERNEL && l->api_kind[i] != TIMELINE_API_GRAPH) continue;
        uint32_t occurrence = occurrence_of(c, l->range[i]), before = asked[l->thread[i]];
        bool together = before != TIMELINE_NONE && occurrence_of(c, l->range[before]) == occurrence;
        double interval = together ? (double)(l->start_ns[i] - l->start_ns[before]) : 0;
        asked[l->thread[i]] = (uint32_t)i;
        c->a->launches_total++;
        FOR_ROWS(c, occurrence, row) count_launch(c, i, row, interval);
    }
    free(last);
    free(asked);
}

static void count_copies(struct context *c) {
    const struct timeline_copies *k = &c->tl->copies;
    for (size_t i = 0; i < k->n; i++) {
        FOR_ROWS(c, occurrence_of(c, k->range[i]), row) {
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
        if (y->kind[i] == TRACE_SYNC_STREAM_WAIT) continue; /* the device waits, not the host */
        FOR_ROWS(c, occurrence_of(c, y->range[i]), row) {
            c->a->stages[row].syncs++;
            c->a->stages[row].sync_ns += (double)(y->end_ns[i] - y->start_ns[i]);
        }
    }
}

void analyze_calls(struct context *c) {
    count_launches(c);
    count_copies(c);
    count_syncs(c);
}
