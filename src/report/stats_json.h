/* What `inferprof stats` says, as JSON and for a terminal. */
#ifndef REPORT_STATS_JSON_H
#define REPORT_STATS_JSON_H

#include <stddef.h>

#include "analyze/trace_stats.h"
#include "base/strbuf.h"

void stats_json(const struct trace_stats *st, struct strbuf *out);
/* The `top` largest rows of each table; `words` gives a sentence for a problem's name, or NULL. */
void stats_text(const struct trace_stats *st, size_t top, const char *(*words)(const char *problem),
                struct strbuf *out);

#endif
