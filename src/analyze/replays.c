/* CUDA graphs of which only some replays were recorded with their kernels. Counts all replays, and computes
 * the median time from one replay without kernels to the next. Nothing is extrapolated. */
#include <math.h>
#include <stdlib.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/stats.h"
#include "base/util.h"
#include "base/vec.h"

struct graph_rows {
    struct analysis_graph *v;
    size_t n, cap;
};

static struct analysis_graph *row_of(struct graph_rows *rows, uint32_t process, uint32_t graph) {
    for (size_t i = 0; i < rows->n; i++)
        if (rows->v[i].process == process && rows->v[i].graph == graph) return &rows->v[i];
    vec_push(rows, ((struct analysis_graph){ .process = process, .graph = graph, .period_ns = NAN }));
    return &rows->v[rows->n - 1];
}

/* Counts, per graph, the launches with recorded kernels. The kernels of two launches may alternate, so a
 * launch is counted at its first kernel. */
static void count_recorded(const struct timeline *tl, struct graph_rows *rows) {
    const struct timeline_kernels *k = &tl->kernels;
    bool *seen = xcalloc(tl->launches.n + 1, sizeof *seen);
    for (size_t i = 0; k->graph && i < k->n; i++) {
        uint32_t launch = k->launch[i];
        if (!k->graph[i] || launch == TIMELINE_NONE || seen[launch]) continue;
        seen[launch] = true;
        row_of(rows, tl->lanes[k->lane[i]].process, k->graph[i])->recorded++;
    }
    free(seen);
}

/* Returns the median time from the start of one replay without kernels to the start of the next one of the
 * same graph and thread. Leaves out pairs with another replay or a recorded window between them. NaN: there
 * is no such pair. */
static double period(const struct timeline *tl, const struct analysis_graph *g) {
    const struct timeline_replays *r = &tl->replays;
    double *v = xmalloc((r->n + 1) * sizeof *v);
    size_t n = 0;
    for (size_t i = 1; i < r->n; i++) {
        uint64_t until_ns;
        bool pair = r->graph[i] == g->graph && r->graph[i - 1] == g->graph &&
                    r->thread[i] == r->thread[i - 1] && tl->threads[r->thread[i]].process == g->process;
        if (!pair || captured_until(tl, g->process, r->start_ns[i - 1], &until_ns) ||
            until_ns < r->start_ns[i])
            continue;
        v[n++] = (double)(r->start_ns[i] - r->start_ns[i - 1]);
    }
    double median = n ? stats_of_sorting(v, n).median : NAN;
    free(v);
    return median;
}

static void note_graph(struct context *c, const struct analysis_graph *g) {
    const char *every =
        isnan(g->period_ns)
            ? ""
            : analysis_text(c, "; one replay per %.4g ms (median) while no kernels were recorded",
                            g->period_ns * 1e-6);
    analysis_note(c, ANALYSIS_INFO, "CUDA graph %u: the kernels of %s of %s replays were recorded%s",
                  g->graph, analysis_count(c, g->recorded), analysis_count(c, g->recorded + g->counted),
                  every);
}

void analyze_replays(struct context *c) {
    const struct timeline *tl = c->tl;
    struct graph_rows rows = { 0 };
    if (!tl->replays.n) return;
    count_recorded(tl, &rows);
    for (size_t i = 0; i < tl->replays.n; i++)
        row_of(&rows, tl->threads[tl->replays.thread[i]].process, tl->replays.graph[i])->counted++;
    for (size_t i = 0; i < rows.n; i++) {
        if (rows.v[i].counted) rows.v[i].period_ns = period(tl, &rows.v[i]);
        if (rows.v[i].counted) note_graph(c, &rows.v[i]);
    }
    c->a->graphs = rows.v;
    c->a->ngraphs = rows.n;
}
