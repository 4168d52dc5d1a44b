/* What `inferprof stats` says, as JSON and for a terminal. */
#ifndef REPORT_STATS_JSON_H
#define REPORT_STATS_JSON_H

#include <stddef.h>

#include "analyze/trace_stats.h"
#include "base/strbuf.h"

void stats_json(const struct trace_stats *st, struct strbuf *out);
struct stats_form {
    size_t top;                                /* rows of each table, the largest */
    size_t line_width;                         /* of the terminal; 0: lines may be as long as they are */
    const char *(*words)(const char *problem); /* a sentence for a problem's name, or NULL */
};
void stats_text(const struct trace_stats *st, const struct stats_form *form, struct strbuf *out);

#endif
