/* Writes the output of `inferprof stats` as JSON and for a terminal. Computes nothing. */
#ifndef REPORT_STATS_H
#define REPORT_STATS_H

#include <stddef.h>

#include "analyze/totals.h"
#include "base/strbuf.h"
#include "ranks/ranks.h"

struct stats_view {
    const struct sums *sums;                      /* sorted; of all sources */
    const struct analysis_totals *totals;         /* NULL: no input has timestamps */
    const struct analysis_unrecorded *unrecorded; /* NULL: no input has timestamps */
    const char *const *files;                     /* [totals->nranks] display names */
    const struct rank_job *job; /* compares the ranks; NULL: the files are not ranks of one job */
    bool no_stages;             /* the trace marks no stages */
    size_t top;                 /* text: rows per table */
    size_t line_width;          /* text: columns; 0: no limit */
    /* text: returns the meaning of a problem's name, or NULL if it has none; may be NULL itself */
    const char *(*explain)(const char *problem);
};

void stats_json(const struct stats_view *v, struct strbuf *out);
void stats_text(const struct stats_view *v, struct strbuf *out);

#endif
