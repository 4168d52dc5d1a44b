/* Report of a job of several ranks: ranks.html, ranks.md, ranks.json and a summary for the terminal
 * (docs/ranks.md). Computes nothing.
 *     struct rank_report r = { .job = &job, .layout = &layout, ... };
 *     if (rank_report_write(dir, &r, &err) < 0) ... */
#ifndef REPORT_RANKS_H
#define REPORT_RANKS_H

#include "base/strbuf.h"
#include "base/table.h"
#include "ranks/costs.h"
#include "ranks/job_findings.h"
#include "ranks/lanes.h"
#include "ranks/layout.h"
#include "ranks/link_use.h"
#include "report/charts.h"

struct rank_report {
    const struct rank_job *job;
    const struct rank_layout *layout;
    const struct rank_costs *costs;
    const struct rank_findings *findings;
    const struct rank_links *links;
    const struct rank_lanes *lanes;
    const char *title, *model, *version; /* title, model: may be NULL */
};

/* The folder must exist. */
int rank_report_write(const char *dir, const struct rank_report *r, struct err *err);
void rank_report_terminal(const struct rank_report *r, size_t width, struct strbuf *out);

/* ---- for src/report only */
void rank_json(const struct rank_report *r, struct strbuf *out);
/* The timeline of three ranks. Without one, the first writes nothing, the second null. */
struct jsonw;
void rank_lanes_markdown(const struct rank_report *r, struct strbuf *out);
void rank_lanes_json(const struct rank_report *r, struct jsonw *j);

#define RANK_ROWS_MAX 64 /* rows of a table */

/* The caller frees the tables. */
void rank_table_stages(const struct rank_report *r, struct table *t);
void rank_table_nodes(const struct rank_report *r, struct table *t);
/* Lists at most RANK_ROWS_MAX ranks: those that arrive latest at collectives. Returns the number of omitted
 * ranks. */
size_t rank_table_ranks(const struct rank_report *r, struct table *t);
void rank_table_collectives(const struct rank_report *r, struct table *t);
void rank_table_communicators(const struct rank_report *r, struct table *t);
void rank_table_clocks(const struct rank_report *r, struct table *t);
/* Writes lines about ranks, nodes, layout, clocks and costs. */
void rank_facts(const struct rank_report *r, struct strbuf *out, const char *prefix, const char *suffix);

/* Return false and write nothing if there is nothing to draw. */
bool rank_chart_heat(const struct rank_report *r, const struct chart_form *form, struct strbuf *out);
bool rank_chart_skew(const struct rank_report *r, const struct chart_form *form, struct strbuf *out);
bool rank_chart_lanes(const struct rank_report *r, const struct chart_form *form, struct strbuf *out);

#endif
