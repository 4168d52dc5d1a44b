/* The tables of the report. `_md` tables are formatted for people. `_csv` tables have every column, with full
 * precision and the unit in the heading. The caller frees the table. */
#ifndef REPORT_ROWS_H
#define REPORT_ROWS_H

#include "base/strbuf.h"
#include "base/table.h"
#include "report/columns.h"
#include "report/view.h"

/* Lists top-level stages only, so that rows add up. */
void rows_stages_md(const struct view *v, struct table *t);
void rows_substages_md(const struct view *v, struct table *t); /* may have no rows */
extern const char rows_no_model_note[]; /* explains how to get roofline times, MFU and MBU */
void rows_stages_csv(const struct view *v, struct table *t);
void rows_stages_terminal(const struct view *v, size_t limit, struct table *t);
struct column_items rows_kernel_items(const struct view *v); /* empty without a trace */
struct column_items rows_operator_items(const struct view *v);
void rows_kernels(const struct view *v, enum column_document document, size_t limit, struct table *t);
void rows_kernels_md(const struct view *v, size_t limit, struct table *t);
void rows_kernels_csv(const struct view *v, struct table *t);
/* Sorted by host time with nested operators. rows_operators_md() sorts by device self time. */
void rows_operators_by_total_md(const struct view *v, size_t limit, struct table *t);
void rows_operators_md(const struct view *v, size_t limit, struct table *t);
void rows_operators_csv(const struct view *v, struct table *t);
/* Matrix products whose sizes were recorded. */
struct column_items rows_gemm_items(const struct view *v);
void rows_gemms_md(const struct view *v, size_t limit, struct table *t);
void rows_gemms_csv(const struct view *v, struct table *t);
/* Memory: peaks by stage and kind; the series over time. */
void rows_memory_md(const struct view *v, struct table *t);
void rows_memory_csv(const struct view *v, struct table *t);
void rows_memory_json(const struct view *v, struct jsonw *j); /* "memory": [...] */
const char *rows_memory_device(const struct view *v, const struct analysis_memory *m);
void rows_aggregates_md(const struct view *v, struct table *t); /* statistics over the repeats */
void rows_mfu_md(const struct view *v, struct table *t);
/* The timeline of each device: its stages, the time between steps, the unrecorded time. */
void rows_timeline_md(const struct view *v, struct table *t);
void rows_idle_md(const struct view *v, struct table *t);  /* GPU idle time by cause, ms per request */
void rows_queue_md(const struct view *v, struct table *t); /* launch queue per stage */
/* one row per device; no rows if there is no communication */
void rows_communication_md(const struct view *v, struct table *t);
void rows_tokens_md(const struct view *v, struct table *t); /* percentiles of the time per output token */
void rows_categories_md(const struct view *v, struct table *t);
void rows_overhead_md(const struct view *v, struct table *t); /* profiling overhead */
void rows_stability_md(const struct view *v, struct table *t);
void rows_power_md(const struct view *v, struct table *t);
/* Removes every column whose values are all unknown, except the first column. */
void rows_drop_unknown(struct table *t);
/* The anatomy of a token, by role; no rows if no decode step was recognised. */
void rows_anatomy_md(const struct view *v, struct table *t);
void rows_anatomy_csv(const struct view *v, struct table *t);
void rows_anatomy_terminal(const struct view *v, size_t limit, struct table *t);
/* empty if the tokens are unknown, except for decode */
void rows_kind_sentence(const struct analysis_step_kind *k, struct strbuf *out);
void rows_anatomy_note(const struct view *v, struct strbuf *out);
struct column_items rows_anatomy_items(const struct view *v);
extern const struct column_group rows_anatomy_columns;
void rows_kinds_md(const struct view *v, struct table *t); /* recognised steps by kind */
/* Writes which steps were recognised; nothing if the trace marks stages or no steps were recognised. */
void rows_recognition_note(const struct view *v, struct strbuf *out);
struct column_items rows_kind_items(const struct view *v);
extern const struct column_group rows_kind_columns;
void rows_steps_csv(const struct view *v, struct table *t); /* recognised steps */
void rows_phases_md(const struct view *v, struct table *t); /* no rows if no steps were recognised */
void rows_environment_md(const struct view *v, struct table *t);
/* One row per stage; no rows if there are no counters. */
void rows_counters_md(const struct view *v, struct table *t);
/* Explains how counters were sampled; may be empty. */
void rows_counters_note(const struct view *v, struct strbuf *out);

/* A note about the Nsight Compute profiles: how many kernels were profiled, and which of them are not in
 * the run. Empty without profiles. `a` may be NULL. */
void rows_profiles_note(const struct analysis *a, struct strbuf *out);

/* The stages of the trace for which `keep` returns true; empty without a trace. */
struct column_items rows_trace_stages(const struct view *v, bool (*keep)(const void *item));
/* Columns that are also in metrics.json. Items: struct analysis_device, _group, _stability, _power. */
extern const struct column_group rows_device_columns, rows_group_columns, rows_stability_columns,
    rows_power_columns;

/* Writes one paragraph about the sub-stages with their MFU. If prefill has sub-stages, also about vision as a
 * whole and the rest of prefill. Writes nothing if there are no sub-stages. */
void rows_vision_note(const struct view *v, struct strbuf *out);

#endif
