/* The JSON documents of a run; report.h has metrics.json itself. */
#ifndef REPORT_METRICS_H
#define REPORT_METRICS_H

#include "base/jsonw.h"
#include "report/view.h"

void metrics_findings_json(const struct view *v, struct strbuf *out);
/* "analysis_input"; nothing if the analysis has no input */
void metrics_input(struct jsonw *j, const struct analysis *a);

#endif
