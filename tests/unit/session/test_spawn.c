#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/program.h"
#include "session/inject.h"
#include "session/spawn.h"
#include "unit/test.h"

static int run_shell(const char *script, struct spawn *s) {
    char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, strdup(script), NULL };
    struct spawn_options o = SPAWN_OPTIONS_INIT;
    struct err err;
    o.argv = argv;
    CHECK_INT(spawn_start(s, &o, &err), 0);
    int status = spawn_wait(s);
    free(argv[2]);
    return status;
}

TEST(spawn_returns_the_exit_status_of_the_program) {
    struct spawn s;
    struct strbuf ends = STRBUF_INIT;
    CHECK_INT(run_shell("exit 0", &s), 0);
    CHECK_INT(run_shell("exit 7", &s), 7);
    program_add_end(&ends, s.wait_status);
    CHECK_INT(run_shell("kill -9 $$", &s), 137);
    strbuf_addstr(&ends, ", ");
    program_add_end(&ends, s.wait_status);
    CHECK_STR(ends.buf, "exit status 7, signal 9 (Killed)");
    strbuf_free(&ends);
}

TEST(spawn_error_names_the_program) {
    char *argv[] = { (char[]){ "no-such-program-here" }, NULL };
    struct spawn_options o = SPAWN_OPTIONS_INIT;
    struct spawn s;
    struct err err;
    o.argv = argv;
    CHECK_INT(spawn_start(&s, &o, &err), -1);
    CHECK_STR(
        err.msg,
        "cannot start 'no-such-program-here': no such program in PATH; check the name, or give its path");
}

TEST(spawn_forwards_signals_and_restores_the_mask) {
    char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" },
                     (char[]){ "trap 'exit 5' TERM; kill -TERM $PPID; while :; do sleep 0.05; done" }, NULL };
    struct spawn_options o = SPAWN_OPTIONS_INIT;
    struct spawn s;
    struct err err;
    sigset_t before, after;
    sigprocmask(SIG_BLOCK, NULL, &before);
    o.argv = argv;
    CHECK_INT(spawn_start(&s, &o, &err), 0);
    CHECK_INT(spawn_wait(&s), 5); /* SIGTERM was forwarded and did not kill us */
    sigprocmask(SIG_BLOCK, NULL, &after);
    CHECK_INT(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

/* As the command line does, which ignores SIGPIPE itself. */
TEST(spawn_gives_the_program_the_signals_that_we_got) {
    static const char script[] = "kill -PIPE $$; exit 3";
    struct spawn s;
    program_signals_init();
    CHECK_INT(run_shell(script, &s), 128 + SIGPIPE);
    signal(SIGPIPE, SIG_IGN);
    program_signals_init();
    CHECK_INT(run_shell(script, &s), 3);
    signal(SIGPIPE, SIG_DFL);
    program_signals_init();
    program_signals_restore();
}

TEST(spawn_sets_variables_and_descriptors) {
    int fds[2];
    char got[16] = "",
         *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ "printf %s \"$WORD\"" }, NULL };
    const char *set[] = { "WORD=a=b", NULL };
    struct spawn_options o = SPAWN_OPTIONS_INIT;
    struct spawn s;
    struct err err;
    CHECK_INT(pipe(fds), 0);
    o.argv = argv;
    o.set = set;
    o.out = fds[1];
    CHECK_INT(spawn_start(&s, &o, &err), 0);
    close(fds[1]);
    CHECK_INT(spawn_wait(&s), 0);
    CHECK_INT(read(fds[0], got, sizeof got - 1), 3);
    CHECK_STR(got, "a=b");
    close(fds[0]);
}

TEST(inject_keeps_variables_set_by_the_user) {
    struct inject_options o = { .trace_dir = "/tmp", .collector = "/dev/null", .what = INJECT_DEFAULT };
    struct inject_env env;
    struct err err;
    setenv("CUDA_INJECTION64_PATH", "/opt/other.so", 1);
    unsetenv("NVTX_INJECTION64_PATH");
    unsetenv("NCCL_PROFILER_PLUGIN");
    CHECK_INT(inject_env_make(&env, &o, &err), 0);
    CHECK(env.cuda_kept);
    CHECK_STR(env.kept[0], "CUDA_INJECTION64_PATH=/opt/other.so");
    CHECK(!env.nvtx_kept);
    CHECK_STR(env.set[0], "NVTX_INJECTION64_PATH=/dev/null");
    CHECK(!env.nccl_kept);
    CHECK_STR(env.set[1], "NCCL_PROFILER_PLUGIN=/dev/null");
    CHECK_STR(env.set[2], "INFERPROF_COLLECT_DIR=/tmp");
    CHECK_STR(env.set[3], "INFERPROF_COLLECT_WHAT=kernels,copies,launches,syncs,nvtx");
    inject_env_free(&env);
    unsetenv("CUDA_INJECTION64_PATH");
}

TEST(traces_of_other_nodes_and_ranks_are_not_local) {
    struct launcher l = { .rank = 1, .node = "n1" };
    CHECK(inject_trace_is_local("n1-rank1-77.ipt", &l, 1));
    CHECK(!inject_trace_is_local("n1-rank11-77.ipt", &l, 1));
    CHECK(!inject_trace_is_local("n2-rank1-77.ipt", &l, 1));
    CHECK(inject_trace_is_local("n1-rank11-77.ipt", &l, LAUNCHER_UNKNOWN));
    CHECK(!inject_trace_is_local("n2-rank1-77.ipt", &l, LAUNCHER_UNKNOWN));
}

TEST(the_process_of_a_trace_is_behind_the_last_dash_of_its_name) {
    CHECK_INT(inject_trace_pid("node-1234.ipt"), 1234);
    CHECK_INT(inject_trace_pid("gpu-node-17-1234.ipt"), 1234);
    CHECK_INT(inject_trace_pid("gpu-node-17-1234.2.ipt"), 1234);
    CHECK_INT(inject_trace_pid("node-1234.problem"), 0);
    CHECK_INT(inject_trace_pid("nvml.ipt"), 0);
    CHECK_INT(inject_trace_pid("gpu-node.ipt"), 0);
    CHECK_INT(inject_trace_pid("gpu-17x.ipt"), 0);
}
