/* The timeline of three ranks as text and as JSON. ranks_charts.c draws it. */
#include <math.h>

#include "base/jsonw.h"
#include "base/units.h"
#include "base/util.h"
#include "report/ranks.h"

#define CELLS 100 /* characters per lane */

/* Adds one character per cell, for what takes the largest part of its time. */
static void add_cells(const struct rank_lane *lane, double window_ns, struct strbuf *out) {
    double compute[CELLS] = { 0 }, communication[CELLS] = { 0 }, cell_ns = window_ns / CELLS;
    for (size_t i = 0; i < lane->nspans; i++) {
        const struct rank_span *s = &lane->spans[i];
        size_t first = (size_t)fmax(0, s->start_ns / cell_ns);
        for (size_t c = first; c < CELLS && (double)c * cell_ns < s->end_ns; c++) {
            double from = fmax(s->start_ns, (double)c * cell_ns);
            double to = fmin(s->end_ns, (double)(c + 1) * cell_ns);
            (s->communication ? communication : compute)[c] += fmax(0, to - from);
        }
    }
    for (size_t c = 0; c < CELLS; c++) {
        /* both kinds may run at the same time: then there is no idle time */
        double idle = fmax(0, cell_ns - compute[c] - communication[c]);
        bool computes = compute[c] >= communication[c];
        strbuf_addch(out, idle > fmax(compute[c], communication[c]) ? '.' : computes ? '#' : '=');
    }
}

void rank_lanes_markdown(const struct rank_report *r, struct strbuf *out) {
    const struct rank_lanes *l = r->lanes;
    char window[32], start[32];
    if (!l->n) return;
    double after_ns = (double)(int64_t)(l->from_ns - r->job->first_ns);
    strbuf_addf(
        out,
        "\n## Timeline of three ranks\n\n%s on the clock of the job, from %s after its start. `#`: kernels "
        "that compute, `=`: only communication, `.`: idle.\n\n```text\n",
        units_duration_ns(l->window_ns, window, sizeof window),
        units_duration_ns(fmax(0, after_ns), start, sizeof start));
    for (size_t i = 0; i < l->n; i++) {
        strbuf_addf(out, "rank %-5u %-8s", l->v[i].rank, l->v[i].role);
        add_cells(&l->v[i], l->window_ns, out);
        strbuf_addch(out, '\n');
    }
    strbuf_addstr(out, "```\n");
}

static void write_lane(const struct rank_lane *lane, struct jsonw *j) {
    jsonw_object(j);
    jsonw_ku64(j, "rank", lane->rank);
    jsonw_kstr(j, "role", lane->role);
    jsonw_karray(j, "start_ns");
    for (size_t i = 0; i < lane->nspans; i++) jsonw_num(j, lane->spans[i].start_ns);
    jsonw_end(j);
    jsonw_karray(j, "end_ns");
    for (size_t i = 0; i < lane->nspans; i++) jsonw_num(j, lane->spans[i].end_ns);
    jsonw_end(j);
    jsonw_karray(j, "communication");
    for (size_t i = 0; i < lane->nspans; i++) jsonw_bool(j, lane->spans[i].communication);
    jsonw_end(j);
    jsonw_end(j);
}

void rank_lanes_json(const struct rank_report *r, struct jsonw *j) {
    const struct rank_lanes *l = r->lanes;
    if (!l->n) {
        jsonw_key(j, "timeline");
        jsonw_null(j);
        return;
    }
    jsonw_kobject(j, "timeline");
    jsonw_ku64(j, "from_ns", l->from_ns);
    jsonw_knum(j, "window_ns", l->window_ns);
    jsonw_karray(j, "ranks");
    for (size_t i = 0; i < l->n; i++) write_lane(&l->v[i], j);
    jsonw_end(j);
    jsonw_end(j);
}
