/* Tables for several ranks. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/html.h"
#include "base/text.h"
#include "base/util.h"
#include "ranks/sums.h"
#include "report/ranks.h"

#define DASH "\xe2\x80\x93"

static void start(struct table *t, const char *const *heads, size_t n, size_t left) {
    table_init(t);
    for (size_t i = 0; i < n; i++) table_column(t, heads[i], i < left ? TABLE_LEFT : TABLE_RIGHT);
}

static void cell_percent(struct table *t, double share) { table_cell(t, "%s", text_percent(share).s); }

static void cell_ms(struct table *t, double ns) { table_cell(t, "%s", text_ms_number(ns * 1e-6).s); }

static void cell_rate(struct table *t, double bytes_per_s) {
    if (isnan(bytes_per_s))
        table_cell(t, DASH);
    else
        table_cell(t, "%.4g", bytes_per_s * 1e-9);
}

static void cell_shares(struct table *t, const struct rank_shares *s) {
    cell_percent(t, s->compute);
    cell_percent(t, s->exposed);
    cell_percent(t, s->wait);
    cell_percent(t, s->move);
    cell_percent(t, s->idle);
}

/* ---- Stages */
void rank_table_stages(const struct rank_report *r, struct table *t) {
    static const char *const heads[] = { "stage",        "ranks",       "step ms",
                                         "compute",      "exposed",     "waiting",
                                         "moving",       "idle",        "compute ms, slowest rank",
                                         "fastest rank", "roofline ms", "MFU",
                                         "MBU" };
    start(t, heads, COUNTOF(heads), 1);
    for (size_t s = 0; s < r->job->nstages; s++) {
        const struct rank_stage *stage = &r->job->stages[s];
        const struct rank_cost *cost = &r->costs->job[s];
        struct rank_stage_sum sum = rank_stage_sum(r->job, s);
        if (!(sum.wall_ns > 0)) continue;
        table_cell(t, "%s%s", stage->parent == RANK_NONE ? "" : "  ", stage->name);
        table_cell(t, "%zu", stage->present);
        cell_ms(t, rank_step_ns(r->job, s));
        cell_shares(t, &sum.shares);
        cell_ms(t, sum.slowest_compute_ns);
        cell_ms(t, sum.fastest_compute_ns);
        cell_ms(t, cost->floor_ns / sum.occurrences);
        cell_percent(t, cost->mfu);
        cell_percent(t, cost->mbu);
    }
}

/* ---- Nodes */
void rank_table_nodes(const struct rank_report *r, struct table *t) {
    static const char *const heads[] = { "node", "ranks with data", "compute", "exposed", "waiting", "moving",
                                         "idle", "latest rank",     "late us", "SM MHz",  "J" };
    start(t, heads, COUNTOF(heads), 1);
    for (size_t i = 0; i < r->job->nnodes; i++) {
        const struct rank_node *n = &r->job->nodes[i];
        table_cell(t, "%s", text_or_dash(n->name));
        table_cell(t, "%zu", n->present);
        struct rank_shares shares = rank_shares_of(&n->time, n->timeline_ns);
        cell_shares(t, &shares);
        if (n->latest == RANK_NONE)
            table_cell(t, DASH);
        else
            table_cell(t, "%u", n->latest);
        table_cell(t, "%s", text_num(n->late_ns * 1e-3, 1).s);
        table_cell(t, "%s", text_num(n->sm_mhz_mean, 0).s);
        table_cell(t, "%s", text_num(n->joules, 0).s);
    }
}

/* ---- Ranks */
static void add_place(const struct rank_report *r, size_t row, struct table *t) {
    const struct rank_place *p = &r->layout->places[row];
    if (!r->layout->source || p->tp == RANK_NONE || p->pp == RANK_NONE || p->dp == RANK_NONE)
        table_cell(t, DASH);
    else
        table_cell(t, "%u, %u, %u", p->tp, p->pp, p->dp);
}

static void add_rank(const struct rank_report *r, size_t row, struct table *t) {
    const struct rank_row *k = &r->job->ranks[row];
    bool there = k->state != RANK_STATE_MISSING;
    table_cell(t, "%u", k->rank);
    table_cell(t, "%s", rank_state_name(k->state));
    table_cell(t, "%s", k->node < r->job->nnodes ? text_or_dash(r->job->nodes[k->node].name) : DASH);
    table_cell(t, "%s", text_or_dash(k->device));
    add_place(r, row, t);
    struct rank_shares shares = rank_shares_of(&k->time, there ? k->timeline_ns : NAN);
    cell_shares(t, &shares);
    table_cell(t, "%s", text_num(there ? k->late_ns * 1e-3 : NAN, 1).s);
    if (there)
        table_cell(t, "%s", text_count(k->last_arrivals).s);
    else
        table_cell(t, DASH);
    table_cell(t, "%s", text_num(there ? k->sm_mhz_mean : NAN, 0).s);
    table_cell(t, "%s", text_percent(there ? k->throttled_ns / k->timeline_ns : NAN).s);
}

size_t rank_table_ranks(const struct rank_report *r, struct table *t) {
    static const char *const heads[] = { "rank",    "state",        "node",    "GPU",      "tp, pp, dp",
                                         "compute", "exposed",      "waiting", "moving",   "idle",
                                         "late us", "arrived last", "SM MHz",  "throttled" };
    size_t n = r->job->nranks, shown = MIN(n, (size_t)RANK_ROWS_MAX);
    size_t *rows = n > RANK_ROWS_MAX ? rank_rows_by_lateness(r->job) : NULL;
    start(t, heads, COUNTOF(heads), 4);
    for (size_t i = 0; i < shown; i++) add_rank(r, rows ? rows[i] : i, t);
    free(rows);
    return n - shown;
}

/* ---- Collectives */
static char *members(const struct rank_communicator *c) {
    uint32_t step = c->nranks > 1 ? c->ranks[1] - c->ranks[0] : 1;
    for (size_t i = 1; i < c->nranks; i++)
        if (c->ranks[i] - c->ranks[i - 1] != step) step = 0;
    if (c->nranks == 0) return xstrdup(DASH);
    if (c->nranks == 1) return xasprintf("%u", c->ranks[0]);
    if (step == 1) return xasprintf("%u to %u", c->ranks[0], c->ranks[c->nranks - 1]);
    if (step) return xasprintf("%u to %u, every %u", c->ranks[0], c->ranks[c->nranks - 1], step);
    return xasprintf("%zu ranks from %u to %u", c->nranks, c->ranks[0], c->ranks[c->nranks - 1]);
}

void rank_table_collectives(const struct rank_report *r, struct table *t) {
    static const char *const heads[] = {
        "operation",       "ranks",      "bytes",    "type", "calls",     "matched",    "moving us, median",
        "skew us, median", "exposed ms", "bus GB/s", "link", "link GB/s", "of the link"
    };
    size_t n = MIN(r->job->ncollectives, (size_t)RANK_ROWS_MAX);
    start(t, heads, COUNTOF(heads), 2);
    for (size_t i = 0; i < n; i++) {
        const struct rank_collective *c = &r->job->collectives[i];
        struct rank_link_use use = rank_link_use(r->job, r->links, i);
        char *who = c->communicator < r->job->ncommunicators
                        ? members(&r->job->communicators[c->communicator])
                        : xstrdup(DASH);
        table_cell(t, "%s", text_or_dash(c->operation));
        table_cell(t, "%s", who);
        free(who);
        table_cell(t, "%s", text_bytes(c->bytes ? (double)c->bytes : NAN).s);
        table_cell(t, "%s", text_or_dash(c->type));
        table_cell(t, "%s", text_count(c->calls).s);
        table_cell(t, "%s", text_count(c->matched).s);
        table_cell(t, "%s", text_num(c->move_ns.median * 1e-3, 1).s);
        table_cell(t, "%s", text_num(c->skew_ns.median * 1e-3, 1).s);
        cell_ms(t, c->exposed_ns);
        cell_rate(t, c->bus_bytes_per_s);
        table_cell(t, "%s", text_or_dash(use.link));
        cell_rate(t, use.peak_bytes_per_s);
        cell_percent(t, use.share);
    }
}

void rank_table_communicators(const struct rank_report *r, struct table *t) {
    static const char *const heads[] = { "communicator", "name",  "ranks", "size",
                                         "with data",    "nodes", "source" };
    size_t n = MIN(r->job->ncommunicators, (size_t)RANK_ROWS_MAX);
    start(t, heads, COUNTOF(heads), 3);
    for (size_t i = 0; i < n; i++) {
        const struct rank_communicator *c = &r->job->communicators[i];
        char *who = members(c);
        table_cell(t, "%016" PRIx64, c->id);
        table_cell(t, "%s", text_or_dash(c->name));
        table_cell(t, "%s", who);
        free(who);
        if (c->size)
            table_cell(t, "%u", c->size);
        else
            table_cell(t, DASH);
        table_cell(t, "%zu", c->nranks);
        table_cell(t, "%u", c->nodes);
        table_cell(t, "%s", c->from_kernels ? "kernels" : "records");
    }
}

/* ---- Clocks */
static void table_steps(const struct rank_clock *c, struct table *t) {
    struct strbuf text = STRBUF_INIT;
    struct rank_clock_change step;
    for (size_t i = 0; i < 4 && rank_clock_change(c, i, &step); i++)
        strbuf_addf(&text, "%s%s%s", i ? ", " : "", step.step_ns > 0 ? "+" : "",
                    text_num(step.step_ns * 1e-3, 1).s);
    if (rank_clock_change(c, 4, &step)) strbuf_addstr(&text, ", ...");
    table_cell(t, "%s", text.len ? text.buf : "none");
    strbuf_free(&text);
}

void rank_table_clocks(const struct rank_report *r, struct table *t) {
    static const char *const heads[] = { "clock",       "node",      "source",
                                         "offset us",   "drift ppm", "drift error ppm",
                                         "error us",    "steps us",  "segments",
                                         "collectives", "outliers" };
    size_t n = MIN(r->job->nclocks, (size_t)RANK_ROWS_MAX);
    start(t, heads, COUNTOF(heads), 3);
    for (size_t i = 0; i < n; i++) {
        const struct rank_clock *c = &r->job->clocks[i];
        size_t points = 0;
        for (size_t k = 0; k < c->nsegments; k++) points += c->segments[k].points;
        table_cell(t, "%zu", i);
        table_cell(t, "%s", c->node < r->job->nnodes ? text_or_dash(r->job->nodes[c->node].name) : DASH);
        table_cell(t, "%s", rank_clock_source_name(c->source));
        table_cell(t, "%s", text_num(c->nsegments ? c->segments[0].offset_ns * 1e-3 : NAN, 1).s);
        table_cell(t, "%s", text_num(rank_clock_drift(c) * 1e6, 3).s);
        table_cell(t, "%s", text_num(c->nsegments ? c->segments[0].drift_error * 1e6 : NAN, 3).s);
        table_cell(t, "%s", text_num(c->error_ns * 1e-3, 2).s);
        table_steps(c, t);
        table_cell(t, "%zu", c->nsegments);
        table_cell(t, "%zu", points);
        table_cell(t, "%zu", c->outliers);
    }
}

/* ---- Facts */
static void add_line(struct strbuf *out, const char *prefix, const char *suffix, const char *text) {
    strbuf_addstr(out, prefix);
    if (*prefix == '<')
        html_escape(out, text);
    else
        strbuf_add_printable(out, text, strlen(text));
    strbuf_addstr(out, suffix);
}

void rank_facts(const struct rank_report *r, struct strbuf *out, const char *prefix, const char *suffix) {
    const struct rank_job *j = r->job;
    char *lines[4], *layout = rank_layout_text(r->layout);
    lines[0] =
        xasprintf("%zu of %zu ranks with data on %zu node%s; %zu died, %zu late, %zu missing", j->present,
                  j->nranks, j->nnodes, j->nnodes == 1 ? "" : "s", j->died, j->late, j->missing);
    lines[1] = layout ? xasprintf("layout: %s (%s)", layout, r->layout->why)
                      : xasprintf("layout: " DASH " (%s)", r->layout->why);
    lines[2] = j->nclocks == 1 ? xasprintf("clocks: all ranks share one; %s collectives matched",
                                           text_count(j->matched).s)
               : isnan(j->clock_error_ns)
                   ? xasprintf("clocks: %zu; their error is unknown", j->nclocks)
                   : xasprintf("clocks: %zu, aligned within %s us; %s collectives matched", j->nclocks,
                               text_num(j->clock_error_ns * 1e-3, 2).s, text_count(j->matched).s);
    lines[3] = r->costs->why
                   ? xasprintf("no MFU, MBU and roofline time: %s", r->costs->why)
                   : xasprintf("MFU, MBU and roofline time: every GPU is charged with its part of %s",
                               text_or_dash(r->model));
    for (size_t i = 0; i < COUNTOF(lines); i++) {
        add_line(out, prefix, suffix, lines[i]);
        free(lines[i]);
    }
    free(layout);
}
