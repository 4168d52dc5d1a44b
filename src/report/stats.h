/* What `inferprof stats` prints, as JSON and for a terminal. Computes nothing. */
#ifndef REPORT_STATS_H
#define REPORT_STATS_H

#include <stddef.h>

#include "analyze/totals.h"
#include "base/strbuf.h"

struct stats_view {
    const struct sums *sums;                     /* sorted; of all sources */
    const struct analysis_totals *totals;        /* NULL: no source has times */
    const char *const *files;                    /* [totals->nranks]: what to call each file */
    size_t top;                                  /* text: rows of each table, the largest */
    size_t line_width;                           /* text: of the terminal; 0: no limit */
    const char *(*explain)(const char *problem); /* text: what a problem's name means, or NULL */
};

void stats_json(const struct stats_view *v, struct strbuf *out);
void stats_text(const struct stats_view *v, struct strbuf *out);

#endif
