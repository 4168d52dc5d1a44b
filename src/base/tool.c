#include "base/tool.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/program.h"
#include "base/util.h"

#define POLL_US 20000
#define GRACE_S 5.0
#define MAX_LOG_BYTES (64u << 20)

char *tool_find(const char *name) {
    static const char *const places[] = { "/usr/local/cuda/bin/%s", "/opt/nvidia/nsight-*/*/%s",
                                          "/opt/nvidia/nsight-*/*/bin/%s",
                                          /* inside Nsight Compute */
                                          "/usr/local/cuda*/nsight-*/host/target-linux-x64/%s",
                                          "/opt/nvidia/nsight-*/*/host/target-linux-x64/%s" };
    char *found = program_find(name);
    for (size_t i = 0; !found && i < COUNTOF(places); i++) {
        char pattern[128];
        glob_t g;
        snprintf(pattern, sizeof pattern, places[i], name);
        if (glob(pattern, 0, NULL, &g) == 0 && access(g.gl_pathv[g.gl_pathc - 1], X_OK) == 0)
            found = xstrdup(g.gl_pathv[g.gl_pathc - 1]);
        globfree(&g);
    }
    return found;
}

static bool wait_until_exit(pid_t pid, int *status, double limit_s, bool stop_on_interrupt) {
    uint64_t start = clock_mono_ns();
    while (waitpid(pid, status, WNOHANG) == 0) {
        if ((double)(clock_mono_ns() - start) > limit_s * 1e9 || (stop_on_interrupt && interrupt_signal()))
            return false;
        usleep(POLL_US);
    }
    return true;
}

static int describe_exit(const struct tool_run *t, int status, bool late, struct err *err) {
    struct strbuf last_line = STRBUF_INIT, end = STRBUF_INIT;
    const char *name = file_basename(t->argv[0]);
    tool_last_words(t->log, &last_line);
    const char *separator = last_line.len ? ": " : "";
    int rc = 0;
    program_add_end(&end, status);
    if (interrupt_signal())
        rc = err_set(err, "%s was interrupted", name);
    else if (late)
        rc = err_set(err, "%s timed out after %.0f s and was stopped%s%s", name, t->limit_s, separator,
                     last_line.buf);
    else if (status != 0)
        rc = err_set(err, "%s ended with %s%s%s", name, end.buf, separator, last_line.buf);
    strbuf_free(&last_line);
    strbuf_free(&end);
    return rc;
}

/* Ends a tool and its children. A tool that saves its result on SIGINT gets it alone: the program that it
 * measures may have ended. */
static void stop_tool(const struct tool_run *t, pid_t pid, int *status) {
    if (t->save_s > 0 && !interrupt_signal()) {
        kill(pid, SIGINT);
        if (wait_until_exit(pid, status, t->save_s, true)) return;
    }
    kill(-pid, SIGTERM);
    if (wait_until_exit(pid, status, GRACE_S, false)) return;
    kill(-pid, SIGKILL);
    waitpid(pid, status, 0);
}

int tool_run(const struct tool_run *t, struct err *err) {
    int in = open(t->input ? t->input : "/dev/null", O_RDONLY | O_CLOEXEC),
        log = open(t->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), status = 0;
    if (in < 0 || log < 0) {
        int rc = err_set(err, "cannot open %s", in < 0 ? t->input : t->log);
        if (in >= 0) close(in);
        if (log >= 0) close(log);
        return rc;
    }
    char **env = program_environment(t->set);
    /* The tool has its own process group, so that its children can be killed too. */
    pid_t self = getpid(), pid = fork();
    if (pid == 0) program_exec(t->argv, env, in, log, SIGTERM, self);
    free(env);
    close(in);
    close(log);
    if (pid < 0) return err_set(err, "cannot start %s: fork failed", t->argv[0]);
    setpgid(pid, pid);
    bool late = !wait_until_exit(pid, &status, t->limit_s, true);
    if (late) stop_tool(t, pid, &status);
    kill(-pid, SIGKILL); /* remaining children */
    return describe_exit(t, status, late, err);
}

int tool_ask(char *const *argv, double limit_s, struct strbuf *out, struct err *err) {
    struct strbuf text = STRBUF_INIT;
    char log[32], *rest, *line, *last = NULL;
    int fd = memfd_create("tool", MFD_CLOEXEC);
    if (fd < 0) return err_set(err, "%s: cannot allocate a buffer for its output", argv[0]);
    snprintf(log, sizeof log, "/proc/self/fd/%d", fd);
    struct tool_run run = { .argv = argv, .log = log, .limit_s = limit_s };
    int rc = tool_run(&run, err);
    if (rc == 0) rc = file_read(log, MAX_LOG_BYTES, &text, err);
    for (rest = text.buf; rc == 0 && (line = strsep(&rest, "\n"));)
        if (*line) last = line;
    if (rc == 0 && !last) rc = err_set(err, "%s printed nothing", argv[0]);
    if (rc == 0) strbuf_add_printable(out, last, strlen(last));
    strbuf_free(&text);
    close(fd);
    return rc;
}

void tool_last_words(const char *log, struct strbuf *out) {
    struct strbuf text = STRBUF_INIT;
    struct err ignored;
    char *last = NULL, *rest, *line;
    if (file_read(log, MAX_LOG_BYTES, &text, &ignored) == 0 && text.len) {
        for (rest = text.buf; (line = strsep(&rest, "\n"));) {
            if (!*line) continue;
            last = line;
            if (strstr(line, "==ERROR==") || strstr(line, "error:")) break;
        }
        if (last) strbuf_add_printable(out, last, strnlen(last, 300));
    }
    strbuf_free(&text);
}
