/* Sums of the ranks of each node. */
#include <math.h>

#include "ranks/job.h"

static void add_time(struct rank_time *sum, const struct rank_time *t) {
    sum->compute_ns += t->compute_ns;
    sum->exposed_ns += t->exposed_ns;
    sum->copy_ns += t->copy_ns;
    sum->idle_ns += t->idle_ns;
    sum->wait_ns += t->wait_ns;
    sum->move_ns += t->move_ns;
    sum->hidden_ns += t->hidden_ns;
}

static void sum_node(const struct rank_job *job, uint32_t node, struct rank_node *out) {
    double mhz = 0, mhz_ranks = 0;
    out->time = (struct rank_time){ .matched_share = NAN };
    out->timeline_ns = out->joules = 0;
    out->latest = RANK_NONE;
    out->late_ns = NAN;
    for (size_t i = 0; i < job->nranks; i++) {
        const struct rank_row *r = &job->ranks[i];
        if (r->node != node || r->state == RANK_STATE_MISSING) continue;
        add_time(&out->time, &r->time);
        out->timeline_ns += r->timeline_ns;
        out->joules += r->joules;
        if (!isnan(r->sm_mhz_mean)) mhz += r->sm_mhz_mean;
        mhz_ranks += !isnan(r->sm_mhz_mean);
        if (isnan(r->late_ns) || r->late_ns <= out->late_ns) continue;
        out->late_ns = r->late_ns;
        out->latest = r->rank;
    }
    out->sm_mhz_mean = mhz / mhz_ranks; /* NaN: no rank has a clock */
}

void job_sum_nodes(struct rank_job *job) {
    for (size_t i = 0; i < job->nnodes; i++) sum_node(job, (uint32_t)i, &job->nodes[i]);
}
