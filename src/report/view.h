/* What every document shows: the stages of the trace and of the timed repeats, laid side by side by name. */
#ifndef REPORT_VIEW_H
#define REPORT_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "analyze/analyze.h"
#include "base/stats.h"
#include "report/report.h"

struct view_stage {
    const char *name, *parent; /* parent: NULL at top level */
    size_t depth;
    const struct analysis_stage *trace; /* NULL: not in the trace */
    const struct report_stage *given;   /* NULL: not timed by `profile` */
    const double *values_ms;            /* [nvalues] timed repeats */
    size_t nvalues;
    struct stats timed; /* ms over the repeats; n == 0: none */
    double time_ms;     /* the figure for one occurrence: median of the repeats, else the trace's */
    char source[64];    /* where time_ms comes from */
    double busy_share;  /* 0..1 of time_ms */
    /* device busy in time_ms, mean over devices: a GPU's kernels as recorded; a CPU's are slowed by
     * recording like all else, so that their share is taken and not their time */
    double busy_ms;
    double kernels, launches_per_token; /* in time_ms; NaN: unknown, or no sense in it */
    double floor_ms, flops, bytes, mfu, mbu, distance;
    double tokens, tokens_per_s; /* of one occurrence */
    double overhead;             /* recorded over timed; 1.07: recording cost 7% */
    bool outside;                /* work in no stage: no time of its own */
};

struct view {
    const struct report_input *in;
    const struct analysis *a; /* NULL: none */
    struct view_stage *stages;
    size_t nstages;
};

void view_init(struct view *v, const struct report_input *in);
void view_free(struct view *v);
bool view_is_told(const struct view_stage *s); /* a sentence of its own: at top level, with a time */
const char *view_stage_name(const struct analysis *a, uint32_t stage); /* NULL for ANALYSIS_NONE */
size_t view_findings(const struct view *v, const struct analysis_finding **first);
bool view_unstable(const struct view *v);       /* a top-level stage's CV is over 5% */
bool view_says_unstable(const struct view *v);  /* the same, unless a problem already says so in words */
bool view_has_floors(const struct view *v);     /* of some stage it is known what the model must cost */
size_t view_busy_devices(const struct view *v); /* that ran kernels */
bool view_on_cpu(const struct view *v);         /* "busy" means the CPU's kernels then */
/* The trace's device: the first that ran a kernel, else the first with a name; NULL: none. */
const char *view_trace_device(const struct timeline *tl);
/* The device the report is about: given, or the first of the trace; NULL: not known. */
const char *view_device(const struct view *v);
double view_peak_flops(const struct view *v);
double view_peak_bytes(const struct view *v);
const char *view_peak_source(const struct view *v);
double view_model_mfu(const struct view *v);

#endif
