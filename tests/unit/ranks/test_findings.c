/* Findings about jobs with known losses. */
#include <math.h>
#include <string.h>

#include "ranks/job_findings.h"
#include "unit/ranks/jobs.h"
#include "unit/test.h"

struct result {
    struct rank_layout layout;
    struct rank_findings findings;
};

static struct result find(const struct test_job *t, struct rank_links links) {
    struct result r;
    struct err err = { "" };
    CHECK_INT(rank_layout_find(&t->job, &(struct rank_given){ 0 }, &r.layout, &err), 0);
    rank_findings_find(&t->job, &r.layout, &links, &r.findings);
    double sum = 0; /* the savings of a stage never exceed its step */
    for (size_t i = 0; i < r.findings.n; i++) sum += r.findings.v[i].saving_ms;
    CHECK(sum <= rank_step_ns(&t->job, 0) * 1e-6 * (1 + 1e-9));
    return r;
}

static const struct rank_finding *rule(const struct result *r, const char *name) {
    for (size_t i = 0; i < r->findings.n; i++)
        if (strcmp(r->findings.v[i].rule, name) == 0) return &r->findings.v[i];
    return NULL;
}

static void release(struct result *r) {
    rank_findings_free(&r->findings);
    rank_layout_free(&r->layout);
}

/* 8 ranks, tensor parallel; 9.8 ms compute, 0.1 ms moving, 0.1 ms idle: nothing to find. */
static void quiet_job(struct test_job *t) {
    test_job_init(t, 8, 8, "NVIDIA H100 80GB HBM3");
    test_job_group(t, NULL, 0, 8, 1, "all_reduce", 65, 16384);
    for (size_t r = 0; r < 8; r++) test_job_times(t, r, 9.8, 0, 0.1, 0.1);
}

TEST(a_balanced_job_has_no_finding) {
    struct test_job t;
    quiet_job(&t);
    struct result r = find(&t, (struct rank_links){ 0 });
    CHECK_INT(r.findings.n, 0);
    release(&r);
}

TEST(exposed_communication_saves_the_time_that_moves_bytes) {
    struct test_job t;
    quiet_job(&t);
    for (size_t k = 0; k < 8; k++) test_job_times(&t, k, 7.9, 0, 2, 0.1);
    struct result r = find(&t, (struct rank_links){ 0 });
    CHECK_INT(r.findings.n, 1);
    CHECK_NEAR(rule(&r, "exposed-communication")->saving_ms, 2, 1e-9);
    CHECK_NEAR(rule(&r, "exposed-communication")->saving_percent, 20, 1e-9);
    release(&r);
}

TEST(a_slow_gpu_costs_the_job_what_the_others_wait) {
    struct test_job t;
    quiet_job(&t);
    for (size_t k = 0; k < 8; k++) test_job_times(&t, k, k == 3 ? 9.8 : 7.8, k == 3 ? 0 : 2, 0.1, 0.1);
    t.job.straggler =
        (struct rank_straggler){ .rank = 3, .reason = RANK_REASON_SLOWER_KERNELS, .last_share = 0.95 };
    struct result r = find(&t, (struct rank_links){ 0 });
    CHECK_INT(r.findings.n, 1); /* not reported again as an imbalance */
    const struct rank_finding *f = rule(&r, "slow-gpu");
    CHECK_INT(f->rank, 3);
    CHECK_NEAR(f->saving_ms, 2, 1e-9);
    CHECK_INT(f->confidence, ANALYSIS_HIGH);
    release(&r);
    test_job_times(&t, 6, 9.2, 0.6, 0.1, 0.1); /* without rank 3, the job waits for rank 6 */
    r = find(&t, (struct rank_links){ 0 });
    CHECK_NEAR(rule(&r, "slow-gpu")->saving_ms, 0.6, 1e-9);
    release(&r);
    t.job.straggler.reason = RANK_REASON_LATER_LAUNCHES;
    r = find(&t, (struct rank_links){ 0 });
    CHECK(rule(&r, "slow-host"));
    release(&r);
}

/* A different rank is slow in every step: no straggler, but an imbalance. The slowest rank computes 9.4 ms,
 * the others 7.4 ms, so the mean is 7.65 ms. */
static void uneven_job(struct test_job *t, bool tokens) {
    quiet_job(t);
    for (size_t r = 0; r < 8; r++) test_job_times(t, r, 7.65, 2.15, 0.1, 0.1);
    for (size_t s = 0; s < JOB_STEPS; s++)
        for (size_t r = 0; r < 8; r++) {
            struct rank_step_cell *c = &t->step_cells[s * 8 + r];
            c->compute_ns = r == s % 8 ? 9.4e6F : 7.4e6F;
            c->tokens = tokens ? (r == s % 8 ? 940 : 740) : NAN;
        }
}

TEST(uneven_sequence_lengths_are_named_if_tokens_explain_the_time) {
    struct test_job t;
    uneven_job(&t, true);
    struct result r = find(&t, (struct rank_links){ 0 });
    CHECK_INT(r.findings.n, 1);
    CHECK_NEAR(rule(&r, "token-imbalance")->saving_ms, 9.4 - 7.65, 1e-3);
    release(&r);
    uneven_job(&t, false);
    r = find(&t, (struct rank_links){ 0 });
    CHECK_NEAR(rule(&r, "uneven-work")->saving_ms, 9.4 - 7.65, 1e-3);
    release(&r);
}

TEST(a_rank_that_is_slowest_in_most_steps_is_named) {
    struct test_job t;
    uneven_job(&t, false);
    for (size_t s = 0; s < JOB_STEPS; s++)
        for (size_t k = 0; k < 8; k++) t.step_cells[s * 8 + k].compute_ns = k == 5 ? 9.4e6F : 7.4e6F;
    struct result r = find(&t, (struct rank_links){ 0 });
    CHECK_INT(rule(&r, "uneven-work")->rank, 5);
    CHECK(strstr(rule(&r, "uneven-work")->evidence, "rank 5 is the slowest in 100% of the steps"));
    release(&r);
}

TEST(uneven_experts_are_named_if_ranks_exchange_tokens) {
    struct test_job t;
    uneven_job(&t, false);
    t.job.ncommunicators = t.job.ncollectives = 0;
    test_job_group(&t, NULL, 0, 8, 1, "all_to_all", 52, 1 << 20);
    struct result r = find(&t, (struct rank_links){ 0 });
    CHECK_INT(r.findings.n, 1);
    CHECK_NEAR(rule(&r, "expert-imbalance")->saving_ms, 9.4 - 7.65, 1e-3);
    release(&r);
}

TEST(pipeline_bubbles_save_what_the_busiest_stage_waits) {
    struct test_job t;
    test_job_init(&t, 4, 4, "NVIDIA H100 80GB HBM3");
    for (size_t k = 0; k < 3; k++) test_job_group(&t, NULL, k, 2, 1, "send", 1, 8192);
    for (size_t k = 0; k < 4; k++) test_job_times(&t, k, k == 2 ? 6 : 4, k == 2 ? 1 : 3, 0.1, 2.9);
    struct result r = find(&t, (struct rank_links){ 0 });
    CHECK_INT(r.layout.sizes.pp, 4);
    CHECK_INT(r.findings.n, 1); /* stages with different layers are no imbalance between ranks */
    /* rank 2 works 6.1 of 10 ms */
    CHECK_NEAR(rule(&r, "pipeline-bubbles")->saving_ms, 3.9, 1e-9);
    release(&r);
}

/* Groups of two; one has half the bandwidth of the others. */
static void check_slow_link(size_t groups, enum analysis_confidence confidence) {
    struct test_job t;
    test_job_init(&t, 2 * groups, 8, "NVIDIA H100 80GB HBM3");
    for (size_t g = 0; g < groups; g++) {
        test_job_group(&t, NULL, 2 * g, 2, 1, "all_reduce", 65, 32 << 20);
        t.collectives[g].bus_bytes_per_s = g == 1 ? 200e9 : 400e9;
        t.collectives[g].exposed_ns =
            (g == 1 ? 2e6 : 1e6) * JOB_STEPS * 2; /* 2 ms or 1 ms per step and rank */
        t.collectives[g].wait_ns = 0;
    }
    for (size_t r = 0; r < 2 * groups; r++)
        test_job_times(&t, r, 7.4, r / 2 == 1 ? 0 : 1, r / 2 == 1 ? 2 : 1, 0.6);
    struct result r = find(&t, (struct rank_links){ 0 });
    const struct rank_finding *f = rule(&r, "slow-link");
    CHECK(f != NULL);
    CHECK_NEAR(f->saving_ms, 1, 1e-9); /* half of 2 ms */
    CHECK(strstr(f->title, "ranks 2 to 3"));
    CHECK_INT(f->confidence, confidence);
    release(&r);
}

TEST(a_slow_link_is_slower_than_the_same_collective_elsewhere) {
    check_slow_link(4, ANALYSIS_HIGH);
    check_slow_link(2, ANALYSIS_MEDIUM); /* the only other group may be the exception */
}

TEST(bus_bandwidth_is_compared_with_the_link) {
    static const struct llm_link net = { .name = "NDR", .gbytes_per_s = 50, .network = true };
    struct test_job t;
    test_job_init(&t, 16, 8, "NVIDIA H100 80GB HBM3");
    test_job_group(&t, NULL, 0, 8, 1, "all_reduce", 65, 64 << 20);
    test_job_group(&t, NULL, 0, 16, 1, "all_reduce", 1, 64 << 20);
    test_job_group(&t, NULL, 0, 16, 1, "all_to_all", 1, 64 << 20);
    for (size_t i = 0; i < 3; i++) t.collectives[i].bus_bytes_per_s = 90e9;
    struct rank_link_use use = rank_link_use(&t.job, &(struct rank_links){ 0 }, 0);
    CHECK_STR(use.link, "NVLink 4");
    CHECK_NEAR(use.share, 0.2, 1e-12);
    CHECK(isnan(rank_link_use(&t.job, &(struct rank_links){ 0 }, 1).share)); /* the network is unknown */
    use = rank_link_use(&t.job, &(struct rank_links){ .net = &net }, 1);     /* 8 adapters of 50 GB/s */
    CHECK_STR(use.link, "NDR");
    CHECK_NEAR(use.peak_bytes_per_s, 400e9, 1);
    use = rank_link_use(&t.job, &(struct rank_links){ .net = &net }, 2); /* each GPU's own adapter */
    CHECK_NEAR(use.peak_bytes_per_s, 50e9, 1);
    t.ranks[3].device = "NVIDIA L40S"; /* different or unknown links: no peak */
    CHECK(rank_link_use(&t.job, &(struct rank_links){ 0 }, 0).link == NULL);
}

/* Ranks 3 and 6 are slow: it saves nothing to repair only one of them. */
TEST(ranks_that_are_as_slow_as_the_straggler_are_named_with_it) {
    struct test_job t;
    quiet_job(&t);
    for (size_t k = 0; k < 8; k++) test_job_times(&t, k, 7.8, 2, 0.1, 0.1);
    test_job_times(&t, 3, 9.8, 0, 0.1, 0.1);
    test_job_times(&t, 6, 9.75, 0.05, 0.1, 0.1);
    t.job.straggler = (struct rank_straggler){ .rank = 3, .reason = RANK_REASON_SLOWER_KERNELS };
    struct result r = find(&t, (struct rank_links){ 0 });
    CHECK_INT(r.findings.n, 1);
    CHECK(strstr(rule(&r, "slow-gpu")->title, "wait for rank 3: its kernels are slower; rank 6 is as slow"));
    CHECK_NEAR(rule(&r, "slow-gpu")->saving_ms, 2, 1e-9);
    release(&r);
}

/* The work of an expert moves to the other ranks: (9.8 + 7 x 7.8) / 8 = 8.05 ms. */
TEST(work_that_moves_to_other_ranks_saves_what_exceeds_the_mean) {
    struct test_job t;
    quiet_job(&t);
    for (size_t k = 0; k < 8; k++) test_job_times(&t, k, k == 3 ? 9.8 : 7.8, k == 3 ? 0 : 2, 0.1, 0.1);
    t.job.straggler = (struct rank_straggler){ .rank = 3, .reason = RANK_REASON_EXPERTS };
    struct result r = find(&t, (struct rank_links){ 0 });
    CHECK_NEAR(rule(&r, "expert-imbalance")->saving_ms, 9.8 - 8.05, 1e-9);
    release(&r);
}

/* All ranks compute equally long per step, but another one is the last in each layer. */
TEST(waiting_in_turns_is_found_although_no_rank_is_slower) {
    struct test_job t;
    quiet_job(&t);
    for (size_t k = 0; k < 8; k++) test_job_times(&t, k, 7.8, 2, 0.1, 0.1);
    struct result r = find(&t, (struct rank_links){ 0 });
    CHECK_INT(r.findings.n, 1);
    CHECK_NEAR(rule(&r, "uneven-work")->saving_ms, 2, 1e-9);
    CHECK_INT(rule(&r, "uneven-work")->rank, RANK_NONE);
    release(&r);
    t.collectives[0].operation = "all_to_all";
    t.collectives[0].wait_ns = 2e6 * JOB_STEPS * 8;
    r = find(&t, (struct rank_links){ 0 });
    CHECK(rule(&r, "expert-imbalance"));
    release(&r);
    /* two nodes, clocks with an error of 40 us: 65 collectives per step may seem to wait 2.6 ms */
    struct rank_clock clocks[2] = { { 0 } };
    t.job.clocks = clocks;
    t.job.nclocks = 2;
    t.job.clock_error_ns = 40e3;
    t.communicators[0].nodes = 2;
    r = find(&t, (struct rank_links){ 0 });
    CHECK_INT(r.findings.n, 0);
    release(&r);
}

TEST(the_node_with_the_slowest_ranks_is_named) {
    struct test_job t;
    test_job_init(&t, 8, 4, "NVIDIA H100 80GB HBM3");
    test_job_group(&t, NULL, 0, 8, 1, "all_reduce", 65, 16384);
    for (size_t r = 0; r < 8; r++) test_job_times(&t, r, r < 4 ? 7.8 : 9.8, r < 4 ? 2 : 0, 0.1, 0.1);
    for (size_t s = 0; s < JOB_STEPS; s++) t.step_cells[s * 8 + 4 + s % 4].compute_ns = 9.9e6F;
    struct result r = find(&t, (struct rank_links){ 0 });
    CHECK(strstr(rule(&r, "uneven-work")->evidence, "differs between steps, but is on node b"));
    release(&r);
}

TEST(the_median_and_the_fastest_rank_ran_from_start_to_end) {
    struct test_job t;
    size_t rows[3];
    quiet_job(&t);
    for (size_t r = 0; r < 8; r++) t.ranks[r].late_ns = 100 - (double)r; /* rank 0 is the latest */
    CHECK_INT(rank_job_choose(&t.job, rows), 3);
    CHECK_INT(rows[0] * 100 + rows[1] * 10 + rows[2], 47);
    for (size_t r = 0; r < 8; r++)
        t.ranks[r].state = r == 2 || r == 3 ? RANK_STATE_COMPLETE : RANK_STATE_DIED;
    CHECK_INT(rank_job_choose(&t.job, rows), 3);
    CHECK_INT(rows[0] * 100 + rows[1] * 10 + rows[2], 23);
}
