/* What every document shows: the run and the stages of its analysis that say anything. Built once per run
 * and passed to every writer. */
#ifndef REPORT_VIEW_H
#define REPORT_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "analyze/analyze.h"
#include "base/stats.h"
#include "base/strbuf.h"
#include "run/info.h"

struct view {
    const struct run_info *run;
    const struct analysis *a; /* of the trace; NULL: there is no trace */
    const struct analysis_stage **stages;
    size_t nstages;
};

void view_init(struct view *v, const struct run_info *run);
void view_free(struct view *v);
/* True: gets a sentence of its own, being at top level and having a time. */
bool view_stage_has_sentence(const struct analysis_stage *s);
/* Where its time_ms comes from; never NULL. */
const char *view_time_source(const struct view *v, const struct analysis_stage *s);
double view_representative_ms(const struct analysis_stage *s); /* the median repeat while recorded; NaN */
/* " per step" for savings of a stage with several occurrences, else "". */
const char *view_saving_unit(const struct analysis *a, const struct analysis_finding *f);
const char *view_stage_name(const struct analysis *a, uint32_t stage); /* NULL for ANALYSIS_NONE */
size_t view_findings(const struct view *v, const struct analysis_finding **first);
bool view_unstable(const struct view *v);       /* a top-level stage's CV is over 5% */
bool view_warns_unstable(const struct view *v); /* the same, unless a problem already says so */
bool view_has_floors(const struct view *v);     /* the cost of some stage is known */
size_t view_busy_devices(const struct view *v); /* how many devices ran kernels */
bool view_on_cpu(const struct view *v);         /* every kernel ran on the CPU */
/* The device of the run, else the first of the trace; NULL: unknown. */
const char *view_device(const struct view *v);
double view_peak_flops(const struct view *v);
double view_peak_bytes(const struct view *v);
const char *view_peak_source(const struct view *v);
double view_model_mfu(const struct view *v); /* prefill and decode together; NaN */
double view_model_mbu(const struct view *v);

#endif
