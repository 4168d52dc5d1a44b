/* Complete runs with tests/programs/fake_engine.c. Its timings are constants, so the tests do not depend on
 * time. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "conf/compose.h"
#include "conf/schema.h"
#include "session/session.h"
#include "unit/test.h"

struct fixture {
    char *dir;
    struct conf *conf;
    struct settings s;
    struct dataset d;
    struct device_choice device;
    struct session_result r;
};

static void set_up(struct fixture *f, const char *const *words, size_t n) {
    struct err err;
    struct conf_request req = { .words = words, .nwords = n };
    struct strlist warnings = { 0 };
    log_set_level(LOG_ERROR);
    req.store.builtin = conf_builtin_files(&req.store.nbuiltin);
    f->conf = conf_compose(&req, &err);
    CHECK(f->conf);
    schema_apply(conf_root(f->conf), &f->s, &warnings);
    CHECK_INT(warnings.n, 0);
    f->dir = test_tmpdir();
    char *prompts = file_join(f->dir, "prompts.jsonl");
    static const char text[] =
        "{\"prompt\": \"one\", \"id\": \"a\"}\n{\"prompt\": \"two\", \"max_new_tokens\": 4}\n";
    CHECK_INT(file_write_atomic(prompts, text, sizeof text - 1, &err), 0);
    f->s.dataset.kind = "prompts";
    f->s.dataset.prompts = prompts;
    dataset_open(&f->d, &f->s, &warnings);
    CHECK_INT(warnings.n, 0);
    dataset_order(&f->d, &f->s, (size_t)f->s.repeats);
    device_choose(&f->s, NULL, "", &f->device, &warnings);
    free(prompts);
}

/* Runs the fake engine with up to three actions. */
static void run(struct fixture *f, const char *deed, const char *deed2) {
    bool hangs = deed && (strstr(deed, "hang") || strstr(deed, "deaf"));
    const char *words[] = { "repeats=5", "infer.max_new_tokens=3",
                            hangs ? "engine.request_timeout_s=1" : "engine.request_timeout_s=60" };
    set_up(f, words, 3);
    char *engine = xasprintf("%s/tests/fake_engine", getenv("BUILD") ? getenv("BUILD") : "build");
    char *state = file_join(f->dir, "state");
    char *argv[] = { engine, state, (char *)deed, (char *)deed2, NULL };
    struct session_plan plan = {
        .settings = &f->s, .dataset = &f->d, .device = &f->device, .argv = argv, .trace_dir = f->dir
    };
    interrupt_watch();
    session_run(&plan, &f->r);
    interrupt_unwatch();
    free(engine);
    free(state);
}

static void tear_down(struct fixture *f) {
    session_result_free(&f->r);
    dataset_free(&f->d);
    conf_close(f->conf);
    free(f->dir);
    log_set_level(LOG_INFO);
}

/* True if one of the warnings contains this text. */
static bool has_problem(const struct fixture *f, const char *text) {
    for (size_t i = 0; i < f->r.warnings.n; i++)
        if (strstr(f->r.warnings.v[i], text)) return true;
    for (size_t i = 0; i < f->r.warnings.n; i++) fprintf(stderr, "problem: %s\n", f->r.warnings.v[i]);
    return false;
}

TEST(run_has_a_representative_and_all_repeats) {
    struct fixture f = { 0 };
    run(&f, NULL, NULL);
    CHECK_INT(f.r.done, 5);
    CHECK_INT(f.r.failed + f.r.restarts + f.r.warnings.n, 0);
    CHECK(f.r.representative.done);
    CHECK_STR(f.r.info.model_name, "fake-model");
    CHECK_INT(f.r.info.stages.n, 3);
    CHECK_NEAR(f.r.warmup_ms, 160, 0);
    /* infer 1 is the representative run: repeats 1..5 are infers 2..6 */
    CHECK_NEAR(f.r.repeats[0].answer.prefill_ms, 102, 0);
    CHECK_NEAR(f.r.repeats[1].answer.prefill_ms, 100, 0);
    CHECK_INT(f.r.repeats[1].item, 1);
    CHECK_NEAR(f.r.repeats[1].answer.new_tokens, 4, 0); /* limit of that prompt */
    CHECK_NEAR(f.r.repeats[2].answer.new_tokens, 3, 0);
    CHECK_STR(f.r.repeats[2].answer.stages.v[0].name, "sam");
    char *trace = file_join(f.dir, "engine.ipt");
    CHECK(file_exists(trace));
    free(trace);
    tear_down(&f);
}

/* infer 4 is the third repeat. */
static void one_failure(const char *deed, unsigned restarts, const char *said) {
    struct fixture f = { 0 };
    run(&f, deed, NULL);
    CHECK_INT(f.r.done, 4);
    CHECK_INT(f.r.failed, 1);
    CHECK(f.r.repeats[2].error && !f.r.repeats[2].done && f.r.repeats[3].done);
    CHECK_INT(f.r.restarts, restarts);
    CHECK(!f.r.gave_up);
    CHECK(has_problem(&f, said));
    tear_down(&f);
}

TEST(crash_loses_one_repeat) {
    one_failure("4=crash", 1,
                "Repeat 3 of 5 failed: the engine died (signal 11 (Segmentation fault)); last line of its "
                "stderr: fake engine: about to crash");
}
TEST(exit_loses_one_repeat) { one_failure("4=exit", 1, "died (exit status 3)"); }
TEST(hang_loses_one_repeat) { one_failure("4=hang", 1, "did not answer within 1 s and was stopped"); }
TEST(engine_ignoring_sigterm_is_killed) { one_failure("4=deaf", 1, "signal 9"); }
TEST(invalid_reply_loses_one_repeat) {
    one_failure("4=garbage", 1,
                "invalid reply of the engine: not a JSON object: Traceback (most recent call last):");
}
TEST(reply_to_another_request_loses_one_repeat) {
    one_failure("4=wrong-id", 1, "answers another request (id)");
}
TEST(partial_line_loses_one_repeat) { one_failure("4=partial", 1, "died (exit status 0)"); }
TEST(error_reply_loses_one_repeat_without_restart) {
    one_failure("4=error", 0, "error from the engine: page.png: too dark to read");
}

TEST(two_crashes_lose_two_repeats) {
    struct fixture f = { 0 };
    run(&f, "3=crash", "5=crash");
    CHECK_INT(f.r.done, 3);
    CHECK_INT(f.r.failed, 2);
    CHECK_INT(f.r.restarts, 2);
    tear_down(&f);
}

TEST(engine_that_always_crashes_stops_the_run) {
    struct fixture f = { 0 };
    run(&f, "0=crash", NULL);
    CHECK(f.r.gave_up);
    CHECK_INT(f.r.done, 0);
    CHECK_INT(f.r.restarts, 1);
    CHECK(has_problem(&f, "failed again right after its restart"));
    tear_down(&f);
}

TEST(timing_runs_after_a_failed_representative_run) {
    struct fixture f = { 0 };
    run(&f, "1=crash", NULL);
    CHECK(!f.r.representative.done);
    CHECK_INT(f.r.done, 5);
    CHECK(has_problem(&f, "The representative run failed"));
    tear_down(&f);
}

TEST(load_failure_is_reported) {
    struct fixture f = { 0 };
    run(&f, "load=error", NULL);
    CHECK(f.r.gave_up && !f.r.loaded);
    CHECK(has_problem(&f, "The engine did not start: loading the model: error from the engine: page.png"));
    tear_down(&f);
}

TEST(hung_warmup_restarts_the_engine_once) {
    struct fixture f = { 0 };
    run(&f, "warmup=hang", NULL);
    CHECK(f.r.gave_up);
    CHECK_INT(f.r.restarts, 1);
    tear_down(&f);
}

TEST(sigint_keeps_results_so_far) {
    struct fixture f = { 0 };
    run(&f, "4=int", NULL);
    CHECK_INT(f.r.interrupted, SIGINT);
    CHECK_INT(f.r.done, 2);
    CHECK_INT(f.r.failed, 0);
    CHECK(has_problem(&f, "The run was stopped by Interrupt during repeat 3 of 5."));
    tear_down(&f);
}

TEST(missing_engine_is_reported) {
    struct fixture f = { 0 };
    set_up(&f, NULL, 0);
    char *argv[] = { (char *)"/no/such/engine", NULL };
    struct session_plan plan = {
        .settings = &f.s, .dataset = &f.d, .device = &f.device, .argv = argv, .trace_dir = f.dir
    };
    session_run(&plan, &f.r);
    CHECK(has_problem(&f, "cannot start the engine: /no/such/engine: No such file or directory"));
    tear_down(&f);
}
