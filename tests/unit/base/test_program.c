#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/program.h"
#include "base/tool.h"
#include "unit/test.h"

static void write_script(const char *dir, const char *name, mode_t mode, const char *text) {
    struct err err;
    char *path = file_join(dir, name);
    CHECK_INT(file_write_atomic(path, text, strlen(text), &err), 0);
    CHECK_INT(chmod(path, mode), 0);
    free(path);
}

static void check_found(const char *path, const char *name, const char *want) {
    char *old = getenv("PATH") ? strdup(getenv("PATH")) : NULL;
    if (path)
        setenv("PATH", path, 1);
    else
        unsetenv("PATH");
    char *found = program_find(name);
    if (old) setenv("PATH", old, 1);
    free(old);
    if (want)
        CHECK_STR(found ? found : "nothing", want);
    else
        CHECK(found == NULL);
    free(found);
}

TEST(program_find_follows_exec_rules) {
    char *dir = test_tmpdir(), *second = file_join(dir, "second"), *both, *tool = file_join(dir, "tool"),
         *folder = file_join(dir, "second/tool"), here[4096];
    struct err err;
    CHECK_INT(file_mkdirs(folder, &err), 0); /* a folder with that name, executable */
    write_script(dir, "tool", 0755, "#!/bin/sh\n");
    write_script(dir, "plain", 0644, "text");
    CHECK(asprintf(&both, "/no/such/folder:%s:%s", second, dir) > 0);
    check_found(both, "tool", tool);
    check_found(both, "plain", NULL);
    check_found(both, "missing", NULL);
    check_found(both, "", NULL);
    check_found("", "missing", NULL);
    check_found(both, tool, tool);
    check_found(both, folder, NULL);
    CHECK(getcwd(here, sizeof here) && chdir(dir) == 0);
    check_found("/no/such/folder:", "tool", "./tool"); /* empty entry: current folder */
    check_found("", "tool", "./tool");
    CHECK_INT(chdir(here), 0);
    free(dir);
    free(second);
    free(both);
    free(tool);
    free(folder);
}

TEST(program_find_uses_default_path_without_PATH) {
    char *old = getenv("PATH") ? strdup(getenv("PATH")) : NULL;
    unsetenv("PATH");
    char *sh = program_find("sh");
    if (old) setenv("PATH", old, 1);
    CHECK(sh && strcmp(file_basename(sh), "sh") == 0);
    free(sh);
    free(old);
}

static const char *value_of(char **env, const char *name, size_t *times) {
    const char *value = NULL;
    size_t n = strlen(name);
    for (*times = 0; *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=') {
            value = *env + n + 1;
            ++*times;
        }
    return value;
}

TEST(program_environment_adds_and_replaces_variables) {
    setenv("TEST_KEPT", "kept", 1);
    setenv("TEST_CHANGED", "old", 1);
    const char *set[] = { "TEST_CHANGED=first", "TEST_NEW=new", "TEST_CHANGED=last", NULL };
    char **env = program_environment(set), **same = program_environment(NULL);
    size_t times;
    CHECK_STR(value_of(env, "TEST_KEPT", &times), "kept");
    CHECK_STR(value_of(env, "TEST_NEW", &times), "new");
    CHECK_STR(value_of(env, "TEST_CHANGED", &times), "last");
    CHECK_INT(times, 1);
    CHECK_STR(value_of(same, "TEST_CHANGED", &times), "old");
    free(env);
    free(same);
    unsetenv("TEST_KEPT");
    unsetenv("TEST_CHANGED");
}

static int run_script(const char *script, double limit_s, struct err *err) {
    char *dir = test_tmpdir(), *log = file_join(dir, "log");
    char *argv[] = { (char[]){ "/bin/sh" }, (char[]){ "-c" }, strdup(script), NULL };
    const char *set[] = { "TEST_WORD=word", NULL };
    struct tool_run run = { .argv = argv, .set = set, .log = log, .limit_s = limit_s };
    int rc = tool_run(&run, err);
    free(argv[2]);
    free(dir);
    free(log);
    return rc;
}

TEST(tool_run_reports_exit_status_and_last_line) {
    struct err err = { "" };
    CHECK_INT(run_script("test \"$TEST_WORD\" = word && ! read x", INFINITY, &err), 0);
    CHECK_INT(run_script("echo some; echo error: broke >&2; echo more; exit 3", INFINITY, &err), -1);
    CHECK_STR(err.msg, "sh ended with exit status 3: error: broke");
    CHECK_INT(run_script("kill -9 $$", INFINITY, &err), -1);
    CHECK_STR(err.msg, "sh ended with signal 9 (Killed)");
    CHECK_INT(run_script("echo slow; sleep 60", 0.05, &err), -1);
    CHECK_STR(err.msg, "sh timed out after 0 s and was stopped: slow");
}

static int ask(const char *script, double limit_s, struct strbuf *out, struct err *err) {
    char *argv[] = { (char[]){ "/bin/sh" }, (char[]){ "-c" }, strdup(script), NULL };
    strbuf_reset(out);
    int rc = tool_ask(argv, limit_s, out, err);
    free(argv[2]);
    return rc;
}

TEST(tool_ask_returns_one_line_and_times_out) {
    struct strbuf s = STRBUF_INIT;
    struct err err = { "" };
    CHECK_INT(ask("echo warning >&2; echo; echo 3.11 here; echo", INFINITY, &s, &err), 0);
    CHECK_STR(s.buf, "3.11 here");
    CHECK_INT(ask("true", INFINITY, &s, &err), -1);
    CHECK_STR(err.msg, "/bin/sh printed nothing");
    CHECK_INT(ask("echo 3.11; exit 1", INFINITY, &s, &err), -1);
    CHECK_STR(err.msg, "sh ended with exit status 1: 3.11");
    CHECK_INT(ask("sleep 60", 0.05, &s, &err), -1);
    strbuf_free(&s);
}
