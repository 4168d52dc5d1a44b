/* From the answers of a run to the input of its report: times by stage and repeat, figures, costs, what
 * recording cost, assumptions and problems.
 *     struct profile_results r;
 *     profile_results_open(&r, &run);
 *     report_write_all(dir, &r.in, &err);
 *     profile_results_close(&r); */
#ifndef CMD_PROFILE_RESULTS_H
#define CMD_PROFILE_RESULTS_H

#include "analyze/analyze.h"
#include "base/strlist.h"
#include "cmd/profile_costs.h"
#include "cmd/profile_plan.h"
#include "report/report.h"
#include "session/env.h"
#include "session/session.h"

/* What a finished run consists of; all borrowed. */
struct profile_run {
    const struct profile_plan *plan;
    const struct session_result *result;
    const struct profile_peak *peak;
    const struct profile_image *images; /* [dataset.n] */
    const struct env *env;
    const char *run_id, *run_dir, *config_yaml, *command, *version;
    uint64_t started_wall_ns;
};

struct profile_results {
    struct report_input in;
    struct analyze_timing *timings; /* [nstages] */
    struct analyze_work *works;     /* [nstages], of the timings */
    struct llm_cost *timed_costs;   /* [nstages] medians over the repeats; flops NaN: unknown */
    size_t nstages;
    struct report_figure *figures;
    struct report_kv *env;
    struct report_answer *answers;
    struct strlist assumptions, problems, owned;
    struct timeline *timeline;
    struct analysis analysis;
    struct analyze_cost *costs;
    struct analyze_tokens *tokens;
    bool *failed; /* [repeats] */
    struct analyze_input analyze;
    char *title;
};

void profile_results_open(struct profile_results *r, const struct profile_run *run);
void profile_results_close(struct profile_results *r);

#endif
