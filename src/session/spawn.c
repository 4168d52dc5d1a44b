#include "session/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/program.h"
#include "base/util.h"

static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };

static void watched_set(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < COUNTOF(forwarded); i++) sigaddset(set, forwarded[i]);
}

static bool move_fd(int from, int to) { return from < 0 || from == to || dup2(from, to) == to; }

/* Runs in the child until exec. On failure, sends errno to the parent through the pipe. */
static _Noreturn void become(const struct spawn *s, const struct spawn_options *o, char *const *env,
                             int report_fd) {
    program_signals_restore();
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    if (move_fd(o->in, 0) && move_fd(o->out, 1) && move_fd(o->err, 2) && (!o->dir || chdir(o->dir) == 0))
        execvpe(o->argv[0], o->argv, env);
    int cause = errno;
    while (write(report_fd, &cause, sizeof cause) < 0 && errno == EINTR) {}
    _exit(127);
}

static void restore_mask(const struct spawn *s) {
    /* Discards pending signals: a Ctrl-C that ended the program was also delivered to this process. */
    sigset_t set;
    struct timespec now = { 0 };
    watched_set(&set);
    while (sigtimedwait(&set, NULL, &now) > 0) {}
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}

static int start_error(const struct spawn_options *o, int cause, struct err *err) {
    if (cause == ENOENT && o->dir)
        return err_set(err, "cannot start %s in %s: %s", o->argv[0], o->dir, strerror(cause));
    if (cause == ENOENT)
        return err_set(err, "cannot start '%s': no such program in PATH; check the name, or give its path",
                       o->argv[0]);
    return err_set(err, "cannot start '%s': %s", o->argv[0], strerror(cause));
}

int spawn_start(struct spawn *s, const struct spawn_options *o, struct err *err) {
    int report[2], cause = 0;
    sigset_t set;
    *s = (struct spawn){ .pid = -1 };
    if (pipe2(report, O_CLOEXEC) < 0) return err_set(err, "cannot create a pipe: %s", strerror(errno));
    watched_set(&set);
    sigprocmask(SIG_BLOCK, &set, &s->old_mask);
    fflush(NULL);
    char **env = program_environment(o->set);
    s->pid = fork();
    if (s->pid == 0) become(s, o, env, report[1]);
    free(env);
    if (s->pid < 0) cause = errno;
    close(report[1]);
    ssize_t got = 0;
    if (s->pid > 0)
        while ((got = read(report[0], &cause, sizeof cause)) < 0 && errno == EINTR) {}
    close(report[0]);
    if (cause == 0) return 0;
    if (s->pid > 0) waitpid(s->pid, NULL, 0);
    s->ended = true;
    restore_mask(s);
    return start_error(o, cause, err);
}

static bool reap(struct spawn *s) {
    if (s->ended) return true;
    pid_t got = waitpid(s->pid, &s->wait_status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return false;
    if (got < 0) s->wait_status = 0; /* already reaped elsewhere; the status is lost */
    s->ended = true;
    restore_mask(s);
    return true;
}

/* SIGINT and SIGQUIT from the terminal are not forwarded: the terminal sends them to the program, too. */
static void forward(const struct spawn *s, const siginfo_t *info) {
    bool from_terminal =
        info->si_code == SI_KERNEL && (info->si_signo == SIGINT || info->si_signo == SIGQUIT);
    if (info->si_signo != SIGCHLD && !from_terminal && s->pid > 0) kill(s->pid, info->si_signo);
}

int spawn_wait(struct spawn *s) {
    /* detects the exit even if a SIGCHLD was missed */
    static const struct timespec recheck = { .tv_nsec = 200000000 };
    sigset_t set;
    watched_set(&set);
    while (!reap(s)) {
        siginfo_t info;
        if (sigtimedwait(&set, &info, &recheck) > 0) forward(s, &info);
    }
    if (WIFSIGNALED(s->wait_status)) return 128 + WTERMSIG(s->wait_status);
    return WEXITSTATUS(s->wait_status);
}
