/* The tables of the report. `_md` tables are formatted for reading. `_csv` tables have full precision and the
 * unit in the heading. The caller frees the table. */
#ifndef REPORT_ROWS_H
#define REPORT_ROWS_H

#include "base/strbuf.h"
#include "base/table.h"
#include "report/columns.h"
#include "report/view.h"

/* top-level stages only */
void rows_stages_md(const struct view *v, struct table *t);
void rows_substages_md(const struct view *v, struct table *t); /* may have no rows */
/* Writes why no stage has roofline time, MFU and MBU, and how to get them. Writes nothing if one has. */
void rows_no_model_note(const struct view *v, struct strbuf *out);
void rows_stages_csv(const struct view *v, struct table *t);
void rows_stages_terminal(const struct view *v, size_t limit, struct table *t);
struct column_items rows_kernel_items(const struct view *v); /* empty without a trace */
struct column_items rows_operator_items(const struct view *v);
void rows_kernels(const struct view *v, enum column_document document, size_t limit, struct table *t);
void rows_kernels_md(const struct view *v, size_t limit, struct table *t);
void rows_kernels_csv(const struct view *v, struct table *t);
/* Sorted by host time including nested operators. rows_operators_md() sorts by device self time. */
void rows_operators_by_total_md(const struct view *v, size_t limit, struct table *t);
void rows_operators_md(const struct view *v, size_t limit, struct table *t);
void rows_operators_csv(const struct view *v, struct table *t);
/* matrix products with recorded sizes */
struct column_items rows_gemm_items(const struct view *v);
void rows_gemms_md(const struct view *v, size_t limit, struct table *t);
void rows_gemms_csv(const struct view *v, struct table *t);
/* Peaks by stage and kind; series over time. */
void rows_memory_md(const struct view *v, struct table *t);
void rows_memory_csv(const struct view *v, struct table *t);
void rows_memory_json(const struct view *v, struct jsonw *j); /* "memory": [...] */
const char *rows_memory_device(const struct view *v, const struct analysis_memory *m);
void rows_aggregates_md(const struct view *v, struct table *t); /* statistics over the repeats */
void rows_mfu_md(const struct view *v, struct table *t);
/* Per device: stages, time between steps, unrecorded time. */
void rows_timeline_md(const struct view *v, struct table *t);
void rows_idle_md(const struct view *v, struct table *t);  /* by cause, ms per request */
void rows_queue_md(const struct view *v, struct table *t); /* launch queue per stage */
/* No rows without communication. */
void rows_communication_md(const struct view *v, struct table *t);
void rows_tokens_md(const struct view *v, struct table *t); /* percentiles of the token time */
void rows_categories_md(const struct view *v, struct table *t);
void rows_overhead_md(const struct view *v, struct table *t); /* profiling overhead */
void rows_stability_md(const struct view *v, struct table *t);
void rows_power_md(const struct view *v, struct table *t);
/* Removes columns without a known value, except the first column. */
void rows_drop_unknown(struct table *t);
/* No rows if no decode step was recognised. */
void rows_anatomy_md(const struct view *v, struct table *t);
void rows_anatomy_csv(const struct view *v, struct table *t);
void rows_anatomy_terminal(const struct view *v, size_t limit, struct table *t);
/* Writes nothing if the tokens are unknown, except for decode. */
void rows_kind_sentence(const struct analysis_step_kind *k, struct strbuf *out);
void rows_anatomy_note(const struct view *v, struct strbuf *out);
struct column_items rows_anatomy_items(const struct view *v);
extern const struct column_group rows_anatomy_columns;
void rows_kinds_md(const struct view *v, struct table *t); /* recognised steps by kind */
/* Writes the source of the times of labelled steps. Writes nothing if the steps are the stages. */
void rows_kinds_note(const struct view *v, struct strbuf *out);
/* Writes nothing if the stages come from annotations or no steps were recognised. */
void rows_recognition_note(const struct view *v, struct strbuf *out);
struct column_items rows_kind_items(const struct view *v);
extern const struct column_group rows_kind_columns;
void rows_steps_csv(const struct view *v, struct table *t); /* recognised steps */
void rows_phases_md(const struct view *v, struct table *t); /* no rows without recognised steps */
void rows_environment_md(const struct view *v, struct table *t);
/* One row per stage. No rows without counters. */
void rows_counters_md(const struct view *v, struct table *t);
/* how counters were sampled */
void rows_counters_note(const struct view *v, struct strbuf *out);

/* How many kernels Nsight Compute profiled, and which of them are not in the run. Writes nothing without
 * profiles. `a` may be NULL. */
void rows_profiles_note(const struct analysis *a, struct strbuf *out);

/* Stages of the trace that `keep` accepts. */
struct column_items rows_trace_stages(const struct view *v, bool (*keep)(const void *item));
/* Also in metrics.json. Items: struct analysis_device, _group, _stability, _power. */
extern const struct column_group rows_device_columns, rows_group_columns, rows_stability_columns,
    rows_power_columns;

/* Writes time, FLOPs and MFU of the vision part, and of the rest of prefill. Writes nothing without a vision
 * part. */
void rows_vision_total(const struct view *v, struct strbuf *out);
/* Writes a paragraph about the sub-stages, and about the vision part and the rest of prefill. Writes nothing
 * if there are no sub-stages. */
void rows_vision_note(const struct view *v, struct strbuf *out);

#endif
