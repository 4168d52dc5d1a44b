/* Turns the answers of a session into a finished run: times per stage and repeat, figures, costs, recording
 * overhead, assumptions and warnings.
 *     struct profiled_run r;
 *     profiled_run_open(&r, &session);
 *     view_init(&v, &r.info); report_write_all(dir, &v, &err); view_free(&v);
 *     profiled_run_close(&r); */
#ifndef RUN_PROFILED_H
#define RUN_PROFILED_H

#include "analyze/analyze.h"
#include "base/strlist.h"
#include "llm/cost.h"
#include "run/info.h"
#include "run/request_cost.h"
#include "session/device_peak.h"
#include "session/env.h"
#include "session/profile_plan.h"
#include "session/session.h"

/* A session that has ended. All pointers are borrowed. */
struct profiled_session {
    const struct profile_plan *plan;
    const struct session_result *result;
    const struct device_peak *peak;
    const struct request_image *images; /* [dataset.n] */
    const struct env *env;
    const char *run_id, *run_dir, *config_yaml, *command, *version;
    uint64_t started_wall_ns;
};

struct profiled_run {
    struct run_info info;
    struct analyze_timing *timings; /* [nstages] */
    struct analyze_work *works;     /* [nstages]: work of each timing */
    /* [nstages]: of the last repeat with a known cost; shows which roof bounds the stage. */
    struct llm_cost *timed_costs;
    size_t nstages;
    struct run_figure *figures;
    struct run_kv *env;
    struct run_answer *answers;
    struct strlist assumptions, warnings, owned;
    struct timeline *timeline;
    struct analysis analysis;
    struct analyze_cost *costs;
    struct analyze_tokens *tokens;
    bool *failed;               /* [repeats] */
    uint32_t *inputs;           /* [repeats]: index of the input */
    struct run_repeat *repeats; /* [repeats] */
    struct analyze_input input;
    struct ncu_profiles *profiles; /* NULL: no Nsight Compute */
    char *title;
};

void profiled_run_open(struct profiled_run *r, const struct profiled_session *session);
void profiled_run_close(struct profiled_run *r);
/* Call this after the Nsight tools. Adds the measurements of ncu.json to the analysis, and the warnings of
 * `more`. */
void profiled_run_add_tools(struct profiled_run *r, const char *run_dir, const struct strlist *more);

#endif
