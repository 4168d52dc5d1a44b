/* Tables for several ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/html.h"
#include "base/text.h"
#include "base/util.h"
#include "ranks/sums.h"
#include "report/ranks.h"
#include "report/ranks_columns.h"

#define DASH "\xe2\x80\x93"

/* Only stages that took time. */
void rank_table_stages(const struct rank_report *r, struct table *t) {
    struct column_set set;
    column_set_init(&set, &rank_stage_columns, 1, COLUMN_DOC_MARKDOWN, r);
    column_set_heads(&set, t);
    for (size_t s = 0; s < r->job->nstages; s++)
        if (rank_stage_sum(r->job, s).wall_ns > 0)
            column_set_cells(&set, &(struct column_row){ r, &r->job->stages[s], s }, t);
}

void rank_table_nodes(const struct rank_report *r, struct table *t) {
    columns_table(&rank_node_columns, 1, COLUMN_DOC_MARKDOWN, r,
                  (struct column_items){ r->job->nodes, r->job->nnodes, sizeof *r->job->nodes }, t);
}

size_t rank_table_ranks(const struct rank_report *r, struct table *t) {
    const struct column_group groups[] = { rank_rank_columns, rank_rank_more_columns };
    size_t n = r->job->nranks, shown = MIN(n, (size_t)RANK_ROWS_MAX);
    size_t *rows = n > RANK_ROWS_MAX ? rank_rows_by_lateness(r->job) : NULL;
    struct column_set set;
    column_set_init(&set, groups, COUNTOF(groups), COLUMN_DOC_MARKDOWN, r);
    column_set_heads(&set, t);
    for (size_t i = 0; i < shown; i++) {
        size_t row = rows ? rows[i] : i;
        column_set_cells(&set, &(struct column_row){ r, &r->job->ranks[row], row }, t);
    }
    free(rows);
    return n - shown;
}

static void first_rows(const struct rank_report *r, const struct column_group *group,
                       struct column_items items, struct table *t) {
    items.n = MIN(items.n, (size_t)RANK_ROWS_MAX);
    columns_table(group, 1, COLUMN_DOC_MARKDOWN, r, items, t);
}
void rank_table_collectives(const struct rank_report *r, struct table *t) {
    const struct rank_job *j = r->job;
    first_rows(r, &rank_collective_columns,
               (struct column_items){ j->collectives, j->ncollectives, sizeof *j->collectives }, t);
}
void rank_table_communicators(const struct rank_report *r, struct table *t) {
    const struct rank_job *j = r->job;
    first_rows(r, &rank_communicator_columns,
               (struct column_items){ j->communicators, j->ncommunicators, sizeof *j->communicators }, t);
}
void rank_table_clocks(const struct rank_report *r, struct table *t) {
    const struct rank_job *j = r->job;
    first_rows(r, &rank_clock_columns, (struct column_items){ j->clocks, j->nclocks, sizeof *j->clocks }, t);
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
