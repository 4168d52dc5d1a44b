#include "unit/ranks/jobs.h"

#include <math.h>
#include <string.h>

void test_job_times(struct test_job *t, size_t rank, double compute, double wait, double move, double idle) {
    struct rank_cell *c = &t->cells[rank];
    double n = JOB_STEPS * 1e6;
    c->time = (struct rank_time){ .compute_ns = compute * n,
                                  .exposed_ns = (wait + move) * n,
                                  .idle_ns = idle * n,
                                  .wait_ns = wait * n,
                                  .move_ns = move * n,
                                  .matched_share = 1 };
    c->wall_ns = (compute + wait + move + idle) * n;
    t->ranks[rank].time = c->time;
    t->ranks[rank].timeline_ns = c->wall_ns;
    for (size_t s = 0; s < JOB_STEPS; s++)
        t->step_cells[s * t->job.nranks + rank] =
            (struct rank_step_cell){ (float)((compute + wait + move + idle) * 1e6), (float)(compute * 1e6),
                                     (float)((wait + move) * 1e6), (float)(wait * 1e6), NAN };
}

void test_job_init(struct test_job *t, size_t ranks, size_t per_node, const char *device) {
    static const char *const names[] = { "a", "b", "c", "d" };
    memset(t, 0, sizeof *t);
    t->job = (struct rank_job){ .world_size = (uint32_t)ranks,
                                .ranks = t->ranks,
                                .nranks = ranks,
                                .present = ranks,
                                .nodes = t->nodes,
                                .nnodes = (ranks + per_node - 1) / per_node,
                                .stages = &t->stage,
                                .nstages = 1,
                                .cells = t->cells,
                                .steps = &t->steps,
                                .nsteps = 1,
                                .communicators = t->communicators,
                                .collectives = t->collectives,
                                .straggler = { .rank = RANK_NONE } };
    t->stage =
        (struct rank_stage){ .name = "decode", .path = "decode", .parent = RANK_NONE, .present = ranks };
    t->steps = (struct rank_steps){ .steps_per_row = 1, .nrows = JOB_STEPS, .cells = t->step_cells };
    for (size_t i = 0; i < t->job.nnodes; i++)
        t->nodes[i] = (struct rank_node){ .name = names[i], .present = per_node };
    for (size_t r = 0; r < ranks; r++) {
        t->ranks[r] = (struct rank_row){ .rank = (uint32_t)r,
                                         .node = (uint32_t)(r / per_node),
                                         .device = device,
                                         .late_ns = NAN,
                                         .sm_mhz_mean = NAN,
                                         .throttled_ns = NAN,
                                         .joules = NAN };
        t->cells[r] = (struct rank_cell){
            .present = true, .occurrences = JOB_STEPS, .tokens_in = NAN, .tokens_out = NAN
        };
        test_job_times(t, r, 7, 1, 1, 1);
    }
}

size_t test_job_group(struct test_job *t, const char *name, size_t first, size_t n, size_t stride,
                      const char *operation, double per_step, uint64_t bytes) {
    size_t row = t->job.ncommunicators++;
    uint32_t low = t->ranks[first].node, high = t->ranks[first + (n - 1) * stride].node;
    for (size_t i = 0; i < n; i++) t->members[row][i] = (uint32_t)(first + i * stride);
    t->communicators[row] = (struct rank_communicator){ .id = row + 1,
                                                        .name = name,
                                                        .ranks = t->members[row],
                                                        .nranks = n,
                                                        .size = (uint32_t)n,
                                                        .nodes = high - low + 1 };
    t->collectives[t->job.ncollectives++] =
        (struct rank_collective){ .communicator = (uint32_t)row,
                                  .operation = operation,
                                  .bytes = bytes,
                                  .calls = (uint64_t)(per_step * JOB_STEPS * (double)n),
                                  .wait_ns = NAN,
                                  .algorithm_bytes_per_s = NAN,
                                  .bus_bytes_per_s = NAN };
    return row;
}
