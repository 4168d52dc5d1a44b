/* The tables of the report. The `_md` ones are for people, the `_csv` ones carry every column with full
 * precision and units in the heads; the caller frees. */
#ifndef REPORT_ROWS_H
#define REPORT_ROWS_H

#include "analyze/counters.h"
#include "analyze/kernel_profile.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "report/view.h"

void rows_stages_md(const struct view *v, struct table *t);    /* top level only: nothing to be added twice */
void rows_substages_md(const struct view *v, struct table *t); /* may have no row */
/* Takes out the columns (but the first) in which nothing is known: they would be dashes from top to
 * bottom. */
void rows_drop_unknown(struct table *t);
extern const char rows_no_model_note[]; /* how to get floors, MFU and MBU */
void rows_stages_csv(const struct view *v, struct table *t);
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

/* Columns of the kernel tables that exist only where counters do; values below "fair" are NaN. */
bool rows_have_counters(const struct view *v);
const struct counter_row *rows_counters_of(const struct view *v, uint32_t kernel); /* NULL: none */
double rows_counter(const struct counter_row *r, enum counter_slot slot);          /* r may be NULL */
const char *rows_counter_bound(const struct counter_row *r);                       /* NULL: not known */
void rows_counter_heads(const struct view *v, struct table *t);
void rows_counter_cells(const struct view *v, uint32_t kernel, struct table *t);
void rows_counter_heads_csv(const struct view *v, struct table *t);
void rows_counter_cells_csv(const struct view *v, uint32_t kernel, struct table *t);

/* The same for what Nsight Compute measured. */
bool rows_have_profiles(const struct view *v);
double rows_profile(const struct kernel_profile *p, enum kernel_profile_metric m); /* p may be NULL */
void rows_profile_heads(const struct view *v, struct table *t);
void rows_profile_cells(const struct view *v, uint32_t kernel, struct table *t);
void rows_profile_heads_csv(const struct view *v, struct table *t);
void rows_profile_cells_csv(const struct view *v, uint32_t kernel, struct table *t);
/* What was profiled, and what of it is not in the run: a sentence, empty when nothing was. `a` may be
 * NULL. */
void rows_profiles_note(const struct analysis *a, struct strbuf *out);

const char *rows_limiter_name(enum analysis_limiter limiter); /* "registers"; "" when unknown */

#endif
