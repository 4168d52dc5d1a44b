/* The tables of the report. The `_md` ones are for people, the `_csv` ones carry every column with full
 * precision and units in the heads; the caller frees. */
#ifndef REPORT_ROWS_H
#define REPORT_ROWS_H

#include "base/strbuf.h"
#include "base/table.h"
#include "report/columns.h"
#include "report/view.h"

void rows_stages_md(const struct view *v, struct table *t);    /* top level only: nothing to be added twice */
void rows_substages_md(const struct view *v, struct table *t); /* may have no row */
/* Takes out the columns (but the first) in which nothing is known: they would be dashes from top to
 * bottom. */
void rows_drop_unknown(struct table *t);
extern const char rows_no_model_note[]; /* how to get floors, MFU and MBU */
void rows_stages_csv(const struct view *v, struct table *t);
void rows_stages_terminal(const struct view *v, size_t limit, struct table *t);
struct column_items rows_kernel_items(const struct view *v); /* none without a trace */
struct column_items rows_operator_items(const struct view *v);
void rows_kernels(const struct view *v, enum column_document document, size_t limit, struct table *t);
void rows_kernels_md(const struct view *v, size_t limit, struct table *t);
void rows_kernels_csv(const struct view *v, struct table *t);
void rows_operators_md(const struct view *v, size_t limit, struct table *t);
void rows_operators_csv(const struct view *v, struct table *t);
void rows_aggregates_md(const struct view *v, struct table *t); /* statistics over the repeats */
void rows_mfu_md(const struct view *v, struct table *t);
void rows_idle_md(const struct view *v, struct table *t);  /* why the GPU waited, ms over the trace */
void rows_queue_md(const struct view *v, struct table *t); /* the launch queue of stages */
void rows_communication_md(const struct view *v,
                           struct table *t);                /* by device; no row without communication */
void rows_tokens_md(const struct view *v, struct table *t); /* percentiles of the time from token to token */
void rows_categories_md(const struct view *v, struct table *t);
void rows_overhead_md(const struct view *v, struct table *t); /* what recording cost */
void rows_stability_md(const struct view *v, struct table *t);
void rows_power_md(const struct view *v, struct table *t);
void rows_environment_md(const struct view *v, struct table *t);
void rows_counters_md(const struct view *v, struct table *t); /* stages; no row without counters */
void rows_counters_note(const struct view *v,
                        struct strbuf *out); /* how it was sampled; nothing without counters */

/* A note about the Nsight Compute profiles: what was profiled, and which of it is not in the run. Empty
 * without profiles. `a` may be NULL. */
void rows_profiles_note(const struct analysis *a, struct strbuf *out);

/* Stages of the trace for which `keep` returns true; none without a trace. */
struct column_items rows_trace_stages(const struct view *v, bool (*keep)(const void *item));
/* Columns that metrics.json has too. Items: struct analysis_device, _group, _stability, _power. */
extern const struct column_group rows_device_columns, rows_group_columns, rows_stability_columns,
    rows_power_columns;

#endif
