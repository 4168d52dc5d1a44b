/* Finds launches that a stream capture recorded into a graph; they do not run at that time. In a trace they
 * are launches of a thread without kernels, either between the calls that begin and end a capture, or
 * consecutive ones as many as the kernels of a graph that is launched later. */
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

struct graph_launch {
    uint32_t process, kernels, launch;
};

static int by_size(const void *a, const void *b) {
    const struct graph_launch *x = a, *y = b;
    if (x->process != y->process) return x->process < y->process ? -1 : 1;
    if (x->kernels != y->kernels) return x->kernels < y->kernels ? -1 : 1;
    return (x->launch < y->launch) - (x->launch > y->launch); /* the last launch first */
}

struct graph_launches {
    struct graph_launch *v;
    size_t n, cap;
};

/* Lists the last launch of a graph for each process and number of kernels. */
static void list_graphs(const struct timeline *tl, struct graph_launches *out) {
    const struct timeline_launches *l = &tl->launches;
    for (size_t i = 0; i < l->n; i++)
        if (l->api_kind[i] == TIMELINE_API_GRAPH && l->kernels[i] > 1)
            vec_push(out, ((struct graph_launch){ tl->threads[l->thread[i]].process, l->kernels[i],
                                                  (uint32_t)i }));
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_size);
    size_t kept = 0;
    for (size_t i = 0; i < out->n; i++)
        if (!kept || out->v[kept - 1].process != out->v[i].process ||
            out->v[kept - 1].kernels != out->v[i].kernels)
            out->v[kept++] = out->v[i];
    out->n = kept;
}

static bool launched_later(const struct graph_launches *g, uint32_t process, uint32_t kernels,
                           uint32_t launch) {
    for (size_t i = 0; i < g->n; i++)
        if (g->v[i].process == process && g->v[i].kernels == kernels && g->v[i].launch > launch) return true;
    return false;
}

struct run { /* consecutive launches of a thread without kernels */
    uint32_t *v;
    size_t n, cap;
};

static void close_run(const struct timeline *tl, struct run *r, const struct graph_launches *g,
                      bool *captured) {
    if (r->n &&
        launched_later(g, tl->threads[tl->launches.thread[r->v[0]]].process, (uint32_t)r->n, r->v[r->n - 1]))
        for (size_t i = 0; i < r->n; i++) captured[r->v[i]] = true;
    r->n = 0;
}

/* Marks the launches without kernels between the calls that begin and end a capture of their thread. */
static void mark_between_calls(const struct timeline *tl, bool *captured) {
    const struct timeline_launches *l = &tl->launches;
    bool *capturing = xcalloc(tl->nthreads + 1, sizeof *capturing), begins = false, ends = false;
    uint32_t last_api = TIMELINE_NONE;
    for (size_t i = 0; i < l->n; i++) {
        uint32_t thread = l->thread[i];
        if (l->api_kind[i] == TIMELINE_API_KERNEL || l->api_kind[i] == TIMELINE_API_GRAPH) {
            captured[i] = capturing[thread] && !l->kernels[i];
            continue;
        }
        if (l->api[i] != last_api) {
            const char *api = timeline_text(tl, last_api = l->api[i]);
            begins = strstr(api, "StreamBeginCapture") != NULL;
            ends = strstr(api, "StreamEndCapture") != NULL;
        }
        if (begins || ends) capturing[thread] = begins;
    }
    free(capturing);
}

bool *stream_captures(const struct timeline *tl) {
    const struct timeline_launches *l = &tl->launches;
    bool *captured = xcalloc(l->n + 1, sizeof *captured);
    mark_between_calls(tl, captured);
    struct graph_launches graphs = { 0 };
    struct run *runs = xcalloc(tl->nthreads + 1, sizeof *runs);
    list_graphs(tl, &graphs);
    for (uint32_t i = 0; graphs.n && i < l->n; i++) {
        if (l->api_kind[i] != TIMELINE_API_KERNEL && l->api_kind[i] != TIMELINE_API_GRAPH) continue;
        if (l->kernels[i])
            close_run(tl, &runs[l->thread[i]], &graphs, captured);
        else
            vec_push(&runs[l->thread[i]], i);
    }
    for (size_t t = 0; t < tl->nthreads; t++) {
        close_run(tl, &runs[t], &graphs, captured);
        free(runs[t].v);
    }
    free(runs);
    free(graphs.v);
    return captured;
}
