/* Jobs of several ranks with known times, built in memory for the tests of this folder. */
#ifndef TESTS_UNIT_RANKS_JOBS_H
#define TESTS_UNIT_RANKS_JOBS_H

#include "ranks/ranks.h"

#define JOB_RANKS_MAX 16
#define JOB_GROUPS_MAX 24
#define JOB_STEPS 8

/* One stage, "decode", with JOB_STEPS steps of 10 ms: 7 ms compute, 1 ms waiting, 1 ms moving, 1 ms idle. */
struct test_job {
    struct rank_job job;
    struct rank_row ranks[JOB_RANKS_MAX];
    struct rank_node nodes[4];
    struct rank_stage stage;
    struct rank_cell cells[JOB_RANKS_MAX];
    struct rank_steps steps;
    struct rank_step_cell step_cells[JOB_STEPS * JOB_RANKS_MAX];
    struct rank_communicator communicators[JOB_GROUPS_MAX];
    uint32_t members[JOB_GROUPS_MAX][JOB_RANKS_MAX];
    struct rank_collective collectives[JOB_GROUPS_MAX];
};

void test_job_init(struct test_job *t, size_t ranks, size_t per_node, const char *device);
/* Sets the times of a rank per step, in ms. */
void test_job_times(struct test_job *t, size_t rank, double compute, double wait, double move, double idle);
/* Adds a communicator of `n` ranks: first, first + stride, ... Each rank calls its operation `per_step` times
 * per step with `bytes` bytes. Returns its row. */
size_t test_job_group(struct test_job *t, const char *name, size_t first, size_t n, size_t stride,
                      const char *operation, double per_step, uint64_t bytes);

#endif
