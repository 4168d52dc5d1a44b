#include "session/engine_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/program.h"
#include "base/secret.h"
#include "base/util.h"

#define STDERR_TAIL_BYTES 600u
#define TICK_MS 200
#define MAX_STDERR_LINE 4096u

struct engine_proc {
    pid_t pid;
    int in, out, err;      /* our ends of the pipes; -1: closed */
    struct strbuf pending; /* stdout: bytes after the last returned line */
    struct strbuf talk;    /* stderr: incomplete line */
    char last_words[STDERR_TAIL_BYTES + 1];
    void (*tick)(void *ctx);
    void *tick_ctx;
};

/* ---- Start */

static int launch(pid_t *pid, char *const *argv, char **env, const int theirs[3]) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); /* we ignore SIGPIPE, and children inherit that */
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGTERM);
    posix_spawn_file_actions_init(&files);
    for (int i = 0; i < 3; i++) posix_spawn_file_actions_adddup2(&files, theirs[i], i);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    int rc = posix_spawnp(pid, argv[0], &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

static void close_pipes(const int *fds, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0) close(fds[i]);
}

struct engine_proc *engine_proc_start(char *const *argv, const char *const *set, struct err *err) {
    int pipes[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
    for (int i = 0; i < 3; i++)
        if (pipe2(pipes[i], O_CLOEXEC) < 0) {
            err_set(err, "starting %s: %s", argv[0], strerror(errno));
            close_pipes(pipes[0], 6);
            return NULL;
        }
    char **env = program_environment(set);
    pid_t pid = -1;
    int rc = launch(&pid, argv, env, (const int[]){ pipes[0][0], pipes[1][1], pipes[2][1] });
    free(env);
    close_pipes((const int[]){ pipes[0][0], pipes[1][1], pipes[2][1] }, 3);
    if (rc != 0) {
        close_pipes((const int[]){ pipes[0][1], pipes[1][0], pipes[2][0] }, 3);
        err_set(err, "cannot start the engine: %s: %s", argv[0], strerror(rc));
        return NULL;
    }
    struct engine_proc *p = xcalloc(1, sizeof *p);
    *p = (struct engine_proc){ .pid = pid,
                               .in = pipes[0][1],
                               .out = pipes[1][0],
                               .err = pipes[2][0],
                               .pending = STRBUF_INIT,
                               .talk = STRBUF_INIT };
    fcntl(p->in, F_SETFL, O_NONBLOCK);
    fcntl(p->out, F_SETFL, O_NONBLOCK);
    fcntl(p->err, F_SETFL, O_NONBLOCK);
    return p;
}

void engine_proc_on_wait(struct engine_proc *p, void (*tick)(void *ctx), void *ctx) {
    p->tick = tick;
    p->tick_ctx = ctx;
}

pid_t engine_proc_pid(const struct engine_proc *p) { return p->pid; }

const char *engine_proc_last_words(const struct engine_proc *p) { return p->last_words; }

/* ---- Standard error */

static void keep_last_words(struct engine_proc *p, const char *text) {
    size_t have = strlen(p->last_words), n = strlen(text);
    if (n > STDERR_TAIL_BYTES / 2) {
        text += n - STDERR_TAIL_BYTES / 2;
        n = STDERR_TAIL_BYTES / 2;
    }
    size_t drop = have + n + 1 > STDERR_TAIL_BYTES ? have + n + 1 - STDERR_TAIL_BYTES : 0;
    memmove(p->last_words, p->last_words + drop, have - drop + 1);
    have -= drop;
    if (have) p->last_words[have++] = '\n';
    memcpy(p->last_words + have, text, n + 1);
}

static void log_stderr_line(struct engine_proc *p, const char *line, size_t n) {
    struct strbuf clean = STRBUF_INIT;
    strbuf_add_printable(&clean, line, n);
    if (clean.len) {
        log_debug("engine: %s", clean.buf);
        secret_mask(clean.buf);
        keep_last_words(p, clean.buf);
    }
    strbuf_free(&clean);
}

static void read_stderr(struct engine_proc *p) {
    char block[4096];
    ssize_t n;
    while ((n = read(p->err, block, sizeof block)) > 0) {
        strbuf_add(&p->talk, block, (size_t)n);
        char *from = p->talk.buf, *end;
        while ((end = memchr(from, '\n', p->talk.len - (size_t)(from - p->talk.buf)))) {
            log_stderr_line(p, from, (size_t)(end - from));
            from = end + 1;
        }
        size_t rest = p->talk.len - (size_t)(from - p->talk.buf);
        if (rest > MAX_STDERR_LINE) {
            log_stderr_line(p, from, rest);
            from += rest;
            rest = 0;
        }
        memmove(p->talk.buf, from, rest);
        p->talk.len = rest;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        if (p->talk.len) log_stderr_line(p, p->talk.buf, p->talk.len);
        strbuf_reset(&p->talk);
        close(p->err);
        p->err = -1;
    }
}

/* ---- Request and reply */

/* Moves the first line of `pending` to `reply`. The first `searched` bytes contain no newline. */
static bool take_line(struct engine_proc *p, size_t searched, struct strbuf *reply) {
    const char *end =
        p->pending.len > searched ? memchr(p->pending.buf + searched, '\n', p->pending.len - searched) : NULL;
    if (!end) return false;
    size_t n = (size_t)(end - p->pending.buf);
    strbuf_add(reply, p->pending.buf, n);
    memmove(p->pending.buf, end + 1, p->pending.len - n - 1);
    p->pending.len -= n + 1;
    return true;
}

static bool send_some(struct engine_proc *p, const char **line, size_t *n) {
    ssize_t sent = write(p->in, *line, *n);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    *line += sent;
    *n -= (size_t)sent;
    return true;
}

/* Returns 1 if data was read, 0 if none is available yet, -1 at the end of the file or on an error. */
static int read_some(struct engine_proc *p) {
    char block[65536];
    ssize_t n = read(p->out, block, sizeof block);
    if (n > 0) strbuf_add(&p->pending, block, (size_t)n);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
    return n > 0 ? 1 : -1;
}

enum engine_io engine_proc_exchange(struct engine_proc *p, const char *line, size_t n, double limit_s,
                                    struct strbuf *reply) {
    uint64_t deadline = clock_mono_ns() + (uint64_t)(limit_s * 1e9);
    size_t searched = 0;
    bool ended = false;
    for (;;) {
        if (n == 0 && take_line(p, searched, reply)) return ENGINE_IO_LINE;
        searched = n == 0 ? p->pending.len : 0;
        if (ended) return ENGINE_IO_ENDED;
        if (p->pending.len > ENGINE_LINE_MAX) return ENGINE_IO_TOO_LONG;
        if (interrupt_signal()) return ENGINE_IO_INTERRUPTED;
        uint64_t now = clock_mono_ns();
        if (now >= deadline) return ENGINE_IO_TIMEOUT;
        struct pollfd fds[] = { { .fd = p->out, .events = POLLIN },
                                { .fd = p->err, .events = POLLIN },
                                { .fd = interrupt_fd(), .events = POLLIN },
                                { .fd = n ? p->in : -1, .events = POLLOUT } };
        poll(fds, COUNTOF(fds), (int)MIN((uint64_t)TICK_MS, (deadline - now) / 1000000 + 1));
        if (p->tick) p->tick(p->tick_ctx);
        if (p->err >= 0 && fds[1].revents) read_stderr(p);
        if (fds[0].revents && read_some(p) < 0) ended = true;
        if (n && fds[3].revents && !send_some(p, &line, &n)) ended = true;
    }
}

/* ---- Stop */

static void pause_ms(long ms) { nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL); }

/* Waits up to limit_s until the engine exits. Keeps reading its stderr, so that the engine cannot block on a
 * full pipe. */
static bool wait_end(struct engine_proc *p, double limit_s, int *status) {
    uint64_t deadline = clock_mono_ns() + (uint64_t)(limit_s * 1e9);
    for (;;) {
        pid_t got = waitpid(p->pid, status, WNOHANG);
        if (got == p->pid || (got < 0 && errno != EINTR)) return true;
        if (clock_mono_ns() >= deadline) return false;
        if (p->err >= 0) read_stderr(p);
        pause_ms(2);
    }
}

void engine_proc_stop(struct engine_proc *p, double grace_s, struct strbuf *how) {
    if (!p) return;
    int status = 0;
    close(p->in);
    if (!wait_end(p, grace_s, &status)) {
        kill(-p->pid, SIGTERM);
        if (!wait_end(p, 0.5, &status)) {
            kill(-p->pid, SIGKILL);
            wait_end(p, 5, &status);
        }
    }
    kill(-p->pid, SIGKILL); /* children of the engine that are still running */
    if (p->err >= 0) read_stderr(p);
    if (how) program_add_end(how, status);
    if (p->err >= 0) close(p->err);
    close(p->out);
    strbuf_free(&p->pending);
    strbuf_free(&p->talk);
    free(p);
}
