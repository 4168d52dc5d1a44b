/* Digests: written and read again, and refused if damaged. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "ranks/job.h"
#include "ranks/job_findings.h"
#include "trace/writer.h"
#include "unit/test.h"

/* A rank with one stage of two steps and three collectives; it starts each of them late_ns after the
 * others. */
static struct rank_digest *make_digest(uint32_t rank, uint64_t late_ns) {
    struct rank_digest *d = digest_new();
    d->rank = rank;
    d->world_size = 2;
    d->node = "a";
    d->finished = true;
    d->base_ns = d->first_ns = 1000000;
    d->last_ns = 9000000;
    d->timeline_ns = 1000;
    d->unrecorded_ns = d->hidden_ns = 0;
    d->stages = digest_alloc(d, 1, sizeof *d->stages);
    d->stages[d->nstages++] = (struct digest_stage){ .name = "decode",
                                                     .path = "decode",
                                                     .parent = RANK_NONE,
                                                     .occurrences = 2,
                                                     .tokens_in = NAN,
                                                     .tokens_out = 7,
                                                     .compute_ns = 700,
                                                     .exposed_ns = 300,
                                                     .steps_per_row = 1,
                                                     .nrows = 2,
                                                     .rows = digest_alloc(d, 2, sizeof(struct digest_step)) };
    for (int i = 0; i < 2; i++) d->stages[0].rows[i] = (struct digest_step){ 1000000, 1, 500, 350, 150, NAN };
    d->operations = digest_alloc(d, 1, sizeof *d->operations);
    d->operations[d->noperations++] = (struct digest_operation){ .communicator = UINT64_MAX - 5,
                                                                 .op = "all_reduce",
                                                                 .type = "bf16",
                                                                 .bytes = 1000,
                                                                 .size = 2,
                                                                 .from_rank = RANK_NONE,
                                                                 .to_rank = RANK_NONE,
                                                                 .matchable = true,
                                                                 .calls = 3,
                                                                 .exposed_ns = 300 };
    d->collectives = digest_alloc(d, 3, sizeof *d->collectives);
    d->pieces = digest_alloc(d, 2, sizeof *d->pieces);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t end = 1001000 + 1000 * i;
        d->collectives[d->ncollectives++] = (struct digest_collective){ .sequence = 2 - i,
                                                                        .start_ns = end - 400 + late_ns,
                                                                        .end_ns = end,
                                                                        .exposed_ns = 100,
                                                                        .stage = 0,
                                                                        .step = (uint32_t)i / 2,
                                                                        .npieces = 1,
                                                                        .first_piece = 0 };
    }
    /* exposed for 100 ns from its start on */
    d->pieces[d->npieces++] = (struct digest_piece){ 0, 100 };
    struct rank_clock_step *step = digest_alloc(d, 1, sizeof *step);
    *step = (struct rank_clock_step){ .at_ns = 5000, .step_ns = -250.5, .error_ns = 3 };
    d->clock_steps = step;
    d->nclock_steps = 1;
    digest_finish(d);
    return d;
}

static char *write_digest(const struct rank_digest *d) {
    struct err err;
    char *dir = test_tmpdir(), *path = file_join(dir, "rank-00000.digest.json");
    CHECK_INT(rank_digest_write(d, path, &err), 0);
    free(dir);
    return path;
}

TEST(a_digest_is_read_as_it_was_written) {
    struct rank_digest *d = make_digest(0, 0);
    char *path = write_digest(d);
    struct err err;
    struct rank_digest *r = rank_digest_read(path, &err);
    CHECK(r != NULL);
    CHECK_INT(r->rank, 0);
    CHECK_INT(r->world_size, 2);
    CHECK_INT(r->local_rank, RANK_NONE);
    CHECK_STR(r->node, "a");
    CHECK(r->host == NULL);
    CHECK_INT(r->last_ns, 9000000);
    CHECK_INT(r->nstages, 1);
    CHECK(isnan(r->stages[0].tokens_in));
    CHECK_NEAR(r->stages[0].exposed_ns, 300, 0);
    CHECK_INT(r->stages[0].nrows, 2);
    CHECK(r->operations[0].communicator == UINT64_MAX - 5);
    CHECK(r->operations[0].match == d->operations[0].match);
    CHECK_INT(r->nclock_steps, 1);
    CHECK_INT(r->clock_steps[0].at_ns, 5000);
    CHECK_NEAR(r->clock_steps[0].step_ns, -250.5, 0);
    CHECK_INT(r->ncollectives, 3);
    for (size_t i = 0; i < 3; i++) {
        CHECK_INT(r->collectives[i].sequence, i); /* sorted */
        CHECK_INT(r->collectives[i].end_ns, d->collectives[i].end_ns);
        CHECK_INT(r->pieces[r->collectives[i].first_piece].to_ns, 100);
    }
    rank_digest_free(r);
    rank_digest_free(d);
    free(path);
}

/* Replaces the first `from` in the text of a digest and returns the message of the reader. */
static void check_refused(const char *from, const char *to, const char *message) {
    struct rank_digest *d = make_digest(0, 0);
    char *path = write_digest(d);
    struct strbuf text = STRBUF_INIT, changed = STRBUF_INIT;
    struct err err;
    CHECK_INT(file_read(path, 1 << 20, &text, &err), 0);
    char *at = strstr(text.buf, from);
    CHECK(at != NULL);
    strbuf_addf(&changed, "%.*s%s%s", (int)(at - text.buf), text.buf, to, at + strlen(from));
    CHECK(rank_digest_parse(changed.buf, changed.len, "d.json", &err) == NULL);
    CHECK(strstr(err.msg, message) != NULL);
    strbuf_free(&text);
    strbuf_free(&changed);
    rank_digest_free(d);
    free(path);
}

TEST(a_damaged_digest_is_refused_with_the_member) {
    check_refused("inferprof.digest/1", "inferprof.stats/1", "d.json: not a digest of a rank");
    check_refused("inferprof.digest/1", "inferprof.digest/9", "digest of version 9");
    check_refused("\"rank\":0", "\"rank\":-1", "`rank`");
    check_refused("\"sequence\":[0,1,2]", "\"sequence\":[0,1]", "as long as the other columns");
    check_refused("\"sequence\":[0,1,2]", "\"sequence\":[0,1,-2]", "`sequence`");
    check_refused("\"operation\":[0,0,0]", "\"operation\":[0,0,7]", "`operation`");
    check_refused("\"step_ns\":-250.5", "\"step_ns\":1e17", "`step_ns`");
    check_refused("\"every\":1", "\"every\":3", "a power of two");
    check_refused("[0,100]", "[100,0]", "`exposed_parts`");
    check_refused("\"parent\":null", "\"parent\":0", "an earlier stage");
    check_refused("\"steps\":[1,1]", "\"steps\":[1,9]", "`steps`");
}

/* A rank whose collectives all have different sizes, one more than the digest keeps. */
TEST(a_digest_with_too_many_operations_can_be_read) {
    struct err err;
    char *dir = test_tmpdir(), *path = file_join(dir, "t.ipt"), *file = NULL;
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    CHECK(w != NULL);
    for (uint64_t i = 0; i < DIGEST_OPERATIONS + 7; i++) {
        struct trace_collective c = { .start_ns = 1000 + 10 * i,
                                      .end_ns = 1005 + 10 * i,
                                      .kernel_start_ns = 1000 + 10 * i,
                                      .kernel_end_ns = 1005 + 10 * i,
                                      .sequence = i,
                                      .communicator = 5,
                                      .bytes = 4 * (i + 1),
                                      .op = TRACE_OP_ALL_REDUCE,
                                      .size = 2 };
        trace_writer_put(w, TRACE_COLLECTIVE, &c, 1);
    }
    CHECK_INT(trace_writer_close(w, &err), 0);
    const char *paths[] = { path };
    struct rank_digest *d = rank_digest_make(paths, 1, &(struct digest_limits){ 0 }, &err);
    CHECK(d != NULL);
    CHECK_INT(d->noperations, DIGEST_OPERATIONS);
    CHECK_INT(d->ncollectives_total, DIGEST_OPERATIONS + 7);
    CHECK_INT(d->nwarnings, 1);
    CHECK(strstr(d->warnings[0], "7 of 65543 collectives are not analysed") != NULL);
    file = write_digest(d);
    struct rank_digest *r = rank_digest_read(file, &err);
    CHECK(r != NULL);
    CHECK_INT(r->noperations, DIGEST_OPERATIONS);
    rank_digest_free(r);
    rank_digest_free(d);
    free(file);
    free(path);
    free(dir);
}

/* A step whose range closes before its kernels run. Without launches, the trace does not tell which kernels
 * are its own. */
static char *write_server_trace(const char *dir) {
    char *path = file_join(dir, "t.ipt");
    struct err err;
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    struct trace_range r = { .start_ns = 1000000,
                             .end_ns = 3400000,
                             .thread = 1,
                             .category = TRACE_CATEGORY_USER,
                             .name = trace_writer_str(w, "step[DECODE bs=32]"),
                             .flops = NAN,
                             .bytes = NAN,
                             .payload = NAN };
    trace_writer_range(w, &r, 1);
    for (uint64_t i = 0; i < 10; i++) {
        struct trace_kernel k = { .start_ns = 3000000 + 1000000 * i,
                                  .end_ns = 3990000 + 1000000 * i,
                                  .correlation = 1 + i,
                                  .stream = 7,
                                  .name = trace_writer_str(w, "kernel") };
        trace_writer_kernel(w, &k, 1);
    }
    CHECK_INT(trace_writer_close(w, &err), 0);
    return path;
}

static void check_unknown_stage(const struct rank_digest *d) {
    const struct digest_stage *s = &d->stages[0];
    CHECK_STR(s->name, "decode");
    CHECK(isnan(s->compute_ns) && isnan(s->exposed_ns) && isnan(s->copy_ns) && isnan(s->idle_ns));
    CHECK(isnan(s->idle_cause_ns[0]) && isnan(s->category_ns[0]));
    CHECK_INT(s->nrows, 0);
    CHECK(d->unassigned.compute_ns > 0);
    CHECK_INT(d->nwarnings, 1);
    CHECK(strstr(d->warnings[0], "decode: its time is unknown: ") != NULL);
}

TEST(a_stage_whose_kernels_are_unknown_has_no_time_in_a_digest) {
    struct err err;
    char *dir = test_tmpdir(), *path = write_server_trace(dir), *file;
    const char *paths[] = { path };
    struct rank_digest **d = calloc(1, sizeof *d);
    struct rank_job job;
    d[0] = rank_digest_make(paths, 1, &(struct digest_limits){ 0 }, &err);
    CHECK(d[0] != NULL);
    check_unknown_stage(d[0]);
    file = write_digest(d[0]);
    rank_digest_free(d[0]);
    d[0] = rank_digest_read(file, &err);
    CHECK(d[0] != NULL);
    check_unknown_stage(d[0]);
    job_build(&job, d, 1, 1);
    CHECK(isnan(rank_job_cell(&job, 0, 0)->wall_ns) && isnan(rank_step_ns(&job, 0)));
    CHECK_NEAR(job.time.compute_ns, 9.9e6, 1);
    rank_job_free(&job);
    free(file);
    free(path);
    free(dir);
}

/* Rank 1 starts 50 ns later. Half of the 100 exposed ns of rank 0 are waiting. */
TEST(waiting_ends_with_the_last_arrival) {
    struct rank_digest **pair = calloc(2, sizeof *pair);
    struct rank_job job;
    pair[0] = make_digest(0, 0);
    pair[1] = make_digest(1, 50);
    job_build(&job, pair, 2, 2);
    CHECK_INT(job.matched, 3);
    CHECK_NEAR(job.ranks[0].time.wait_ns, 150, 1e-3);
    CHECK_NEAR(job.ranks[0].time.move_ns, 150, 1e-3);
    CHECK_NEAR(job.ranks[1].time.wait_ns, 0, 1e-3);
    CHECK_NEAR(job.ranks[0].late_ns, 0, 0);
    CHECK_NEAR(job.ranks[1].late_ns, 50, 1e-9);
    CHECK_INT(job.ranks[1].last_arrivals, 3);
    CHECK_NEAR(job.ranks[1].wait_caused_ns, 150, 1e-3);
    CHECK_NEAR(job.time.matched_share, 1, 1e-9);
    CHECK_NEAR(rank_job_cell(&job, 0, 0)->time.wait_ns, 150, 1e-3);
    CHECK_INT(job.ncollectives, 1);
    CHECK_NEAR(job.collectives[0].skew_ns.median, 50, 1e-9);
    CHECK_NEAR(job.collectives[0].move_ns.median, 350, 1e-9);
    /* 1,000 bytes in 350 ns; the bus factor of an all-reduce over 2 ranks is 1 */
    CHECK_NEAR(job.collectives[0].bus_bytes_per_s, 1000 / 350e-9, 1);
    CHECK_INT(job.straggler.rank, 1);
    rank_job_free(&job);
}

static void set_stage(struct digest_stage *s, const char *name, uint64_t occurrences, double compute_ns) {
    *s = (struct digest_stage){ .name = name,
                                .path = name,
                                .parent = RANK_NONE,
                                .occurrences = occurrences,
                                .tokens_in = NAN,
                                .tokens_out = NAN,
                                .compute_ns = compute_ns,
                                .exposed_ns = 150,
                                .steps_per_row = 1 };
}

/* Rank 0 died after half of the steps. Rank 1 is slower only in prefill: 125 instead of 100 ns per step. */
TEST(the_stage_of_the_straggler_is_chosen_by_time_per_step) {
    struct rank_digest **pair = calloc(2, sizeof *pair);
    struct rank_job job;
    for (uint32_t r = 0; r < 2; r++) {
        pair[r] = make_digest(r, 50 * r);
        pair[r]->stages = digest_alloc(pair[r], 2, sizeof *pair[r]->stages);
        pair[r]->nstages = 2;
        set_stage(&pair[r]->stages[0], "decode", r ? 4 : 2, r ? 1400 : 700);
        set_stage(&pair[r]->stages[1], "prefill", r ? 4 : 2, r ? 500 : 200);
    }
    pair[0]->finished = false;
    job_build(&job, pair, 2, 2);
    CHECK_INT(job.straggler.rank, 1);
    CHECK(job.straggler.stage < job.nstages);
    CHECK_STR(job.stages[job.straggler.stage].name, "prefill");
    rank_job_free(&job);
}

TEST(missing_ranks_are_rows_without_figures) {
    struct rank_digest **one = calloc(1, sizeof *one);
    struct rank_job job;
    one[0] = make_digest(1, 0);
    job_build(&job, one, 1, 3);
    CHECK_INT(job.nranks, 3);
    CHECK_INT(job.missing, 2);
    CHECK(job.ranks[0].state == RANK_STATE_MISSING);
    CHECK(isnan(job.ranks[0].time.compute_ns));
    CHECK(job.ranks[1].state == RANK_STATE_COMPLETE);
    CHECK_INT(job.matched, 0);
    CHECK(isnan(job.ranks[1].time.wait_ns)); /* nothing was matched: unknown, not 0 */
    CHECK(strstr(job.warnings[0], "There is no trace of ranks 0, 2") != NULL);
    rank_job_free(&job);
}

TEST(a_rank_that_starts_after_the_first_step_of_the_others_is_late) {
    struct rank_digest **ranks = calloc(3, sizeof *ranks);
    struct rank_job job;
    for (uint32_t r = 0; r < 3; r++) {
        ranks[r] = make_digest(r, 0);
        ranks[r]->first_step_end_ns = 1002000;
    }
    ranks[2]->first_ns = 1002001;
    ranks[1]->finished = false;
    job_build(&job, ranks, 3, 3);
    CHECK(job.ranks[0].state == RANK_STATE_COMPLETE);
    CHECK(job.ranks[1].state == RANK_STATE_DIED);
    CHECK(job.ranks[2].state == RANK_STATE_LATE);
    rank_job_free(&job);
}
