/* The data that all documents show: the run, and the stages of its analysis, without the only stage of an
 * empty trace. */
#ifndef REPORT_VIEW_H
#define REPORT_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "analyze/analyze.h"
#include "base/stats.h"
#include "base/strbuf.h"
#include "base/strlist.h"
#include "run/info.h"

struct view {
    const struct run_info *run;
    const struct analysis *a; /* NULL: no trace */
    const struct analysis_stage **stages;
    size_t nstages;
};

void view_init(struct view *v, const struct run_info *run);
void view_free(struct view *v);
/* True for top-level stages with a time that are not warm-up. */
bool view_stage_has_sentence(const struct analysis_stage *s);
/* Returns the source of time_ms; never NULL. */
const char *view_time_source(const struct view *v, const struct analysis_stage *s);
/* Time of the recorded repeat; NaN: unknown. */
double view_representative_ms(const struct analysis_stage *s);
/* Returns " per step" if the saving is for one of several steps, else "". */
const char *view_saving_unit(const struct analysis *a, const struct analysis_finding *f);
extern const char view_and_gaps[]; /* follows the stage in "50% of decode" if outside_ms > 0 */
const char *view_stage_name(const struct analysis *a, uint32_t stage); /* NULL for ANALYSIS_NONE */
size_t view_findings(const struct view *v, const struct analysis_finding **first);
bool view_unstable(const struct view *v); /* a top-level stage with CV > 5% */
bool view_has_warning(const struct view *v, const char *text);
/* Adds the warnings of the run and of its analysis, each text once. */
void view_caveats(const struct view *v, struct strlist *out);
bool view_warns_unstable(const struct view *v); /* false if a warning of the run reports it */
bool view_has_floors(const struct view *v);     /* a stage with known cost */
size_t view_busy_devices(const struct view *v); /* devices with kernels */
/* True if stages have times of timed repeats and busy times of a recorded run. */
bool view_two_runs(const struct view *v);
/* The words after the time of a stage if it is that of recorded steps, which take longer; else "". */
const char *view_recorded_words(const struct analysis_stage *s);
bool view_unrecorded(const struct view *v); /* a stage has unrecorded steps */
/* The machine was busy while the stages were timed: their ratios to the roofline time mean little. */
bool view_was_busy(const struct view *v);
bool view_knows_busy(const struct view *v); /* of at least one stage */
bool view_on_cpu(const struct view *v);     /* no kernel ran on GPUs */
/* Name of the run's device, else of the first device in the trace that ran a kernel. NULL: unknown. */
const char *view_device(const struct view *v);
double view_peak_flops(const struct view *v);
double view_peak_bytes(const struct view *v);
const char *view_peak_source(const struct view *v);
/* prefill and decode together; NaN: unknown */
double view_model_mfu(const struct view *v);
double view_model_mbu(const struct view *v);

#endif
