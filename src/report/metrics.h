/* The JSON documents of a run; report.h has metrics.json itself. */
#ifndef REPORT_METRICS_H
#define REPORT_METRICS_H

#include "base/jsonw.h"
#include "report/report.h"

#define REPORT_METRICS_SCHEMA 1

void metrics_findings(struct jsonw *j, const struct analysis *a); /* "findings": [...] */
void metrics_findings_json(const struct report_input *in, struct strbuf *out);

#endif
