/* Rules that turn an analysis into findings. A rule examines one stage (or the whole run, if the scope is
 * NULL) and emits findings: the numbers, an upper bound of the saving, and a recommendation. */
#ifndef ANALYZE_FINDING_H
#define ANALYZE_FINDING_H

#include "analyze/internal.h"

/* A stage with its times in ms, per request and device. Computed from the stage for each rule. */
struct finding_scope {
    const struct analysis_stage *s;
    uint32_t row;
    double shares; /* number of (request, device) pairs; sums are divided by it */
    /* time of the stage in the timed repeats, else in the trace; savings are percentages of it */
    double wall_ms;
    double outside_ms; /* idle time between steps, for a rule whose saving contains it; else 0 */
    double traced_wall_ms, busy_ms, floor_ms; /* floor_ms: NaN if unknown */
    /* Share of the recorded idle time that fits into the timed run. Recording slows down the host but not
     * the GPU, so the recorded idle time is too long. */
    double idle_scale;
};
struct finding_rule {
    const char *id;
    enum { FINDING_GPU_STAGE, FINDING_ANY_STAGE, FINDING_RUN } about;
    bool needs_idle; /* skip stages without known idle time */
    void (*find)(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
};
/* f is the scope of the stage; NULL: the whole run. saving_ms NaN: informative only. A finding with a saving
 * of less than 1% is dropped. The texts must live as long as the analysis. */
void finding_emit(struct context *c, const struct finding_rule *rule, const struct finding_scope *f,
                  double saving_ms, enum analysis_confidence confidence, const char *title,
                  const char *evidence, const char *advice);

/* Returns a duration with its unit and without exponent, such as "3.05 s". */
const char *finding_time(struct context *c, double ms);
/* Returns a size with its unit, such as "1.50 GB". */
const char *finding_bytes(struct context *c, double bytes);
/* Divides a total of the stage by the scope's shares, so that it has the same unit as the times. */
const char *finding_count(struct context *c, const struct finding_scope *f, uint64_t total);
/* Returns the unit of these values: " per step", " per device", " per step and device"; "" for totals. */
const char *finding_unit(const struct finding_scope *f);
/* Returns the advice for language models if the stage is known to be one's, else the other advice. */
const char *finding_advice(const struct context *c, const struct finding_scope *f, const char *model,
                           const char *other);

/* finding_idle.c */
void find_launch_bound(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_sync(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_host_copies(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_no_work(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_dependency(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_between_steps(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_unexplained_idle(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_other_idle(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
/* finding_work.c */
void find_roof(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_small_grids(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_wave_tails(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_chains(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_waits(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_casts(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_attention(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_experts(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_communication(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
/* finding_roles.c: at most one finding per role */
void find_roles(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
/* finding_counters.c */
void find_model_differs(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
/* finding_run.c */
void find_throttle(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_failures(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_variance(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_overhead(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_idle_between(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);
void find_outside(struct context *c, const struct finding_rule *rule, const struct finding_scope *f);

#endif
