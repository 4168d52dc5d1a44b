/* Runs as JSON, for `runs --json` and the API. */
#ifndef SERVE_RUN_JSON_H
#define SERVE_RUN_JSON_H

#include "base/jsonw.h"
#include "history/query.h"

/* Each writes one object. */
void run_json_summary(struct jsonw *j, const struct history_run *run);
void run_json_page(struct jsonw *j, const struct history_page *page);
void run_json_details(struct jsonw *j, const struct history_run *run, const struct run_record *r);
/* Each writes one array. */
void run_json_figures(struct jsonw *j, const struct run_record *r);
void run_json_stages(struct jsonw *j, const struct run_record *r);
void run_json_findings(struct jsonw *j, const struct run_record *r);
/* "2026-11-15T02:24:00Z"; null for ns <= 0 */
void run_json_time(struct jsonw *j, const char *key, int64_t ns);

#endif
