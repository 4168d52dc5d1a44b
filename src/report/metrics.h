/* Parts of the JSON documents. */
#ifndef REPORT_METRICS_H
#define REPORT_METRICS_H

#include "base/jsonw.h"
#include "report/view.h"

void metrics_findings_json(const struct view *v, struct strbuf *out);
void metrics_aggregates(struct jsonw *j, const struct view *v); /* "aggregates" of a profiled run */
/* Writes "analysis_input" if there is one. */
void metrics_input(struct jsonw *j, const struct analysis *a);

#endif
