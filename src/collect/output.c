#include "collect/output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/secret.h"
#include "base/clock.h"
#include "base/launcher.h"
#include "base/notice.h"
#include "base/util.h"
#include "collect/host.h"
#include "collect/service.h"

#ifndef INFERPROF_VERSION
#define INFERPROF_VERSION "unknown"
#endif
#define MAX_PROBLEMS 32
#define GRACE_MS 50  /* for threads inside, at exit */
#define FLUSH_MS 200 /* a crash loses the records of this time and those in CUPTI's buffers */

struct settings settings;

static struct {
    _Atomic(struct trace_writer *) writer;
    atomic_int inside;                                         /* threads inside output_take() */
    atomic_bool wanted;                                        /* a file is or should be open */
    atomic_bool lazy;                                          /* after fork: first record opens */
    atomic_uint generation;                                    /* files opened so far */
    atomic_ullong lost[TRACE_KIND_END][TRACE_LOST_REASON_END]; /* counted while no file is open */
    pthread_mutex_t lock;                                      /* for `problems` */
    struct launcher launcher;                                  /* read before the file is opened */
    char problems[MAX_PROBLEMS][512];
    unsigned nproblems;
} out = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void trace_host(char *host, size_t cap) {
    if (gethostname(host, cap) != 0) snprintf(host, cap, "host");
    host[cap - 1] = '\0';
    host[strcspn(host, ". /")] = '\0';
}

/* <dir>/<host>-<pid>, or <dir>/<node>-rank<N>-<pid> in a job. `inferprof run` parses the process id after the
 * last dash. The rank is needed if several nodes have the same host name. */
static void trace_stem(char *path, size_t cap) {
    char host[65];
    const struct launcher *l = &out.launcher;
    trace_host(host, sizeof host);
    if (l->rank != LAUNCHER_UNKNOWN)
        snprintf(path, cap, "%s/%s-rank%u-%d", settings.dir, l->node, l->rank, (int)getpid());
    else
        snprintf(path, cap, "%s/%s-%d", settings.dir, host, (int)getpid());
}

/* After exec() the pid is the same. The earlier file is kept, and the next one is <stem>.2.ipt. */
static void trace_path(const char *stem, char *path, size_t cap) {
    snprintf(path, cap, "%s.ipt", stem);
    for (int n = 2; access(path, F_OK) == 0 && n < 1000; n++) snprintf(path, cap, "%s.%d.ipt", stem, n);
}

/* Sends the reason to `inferprof run` if the service thread cannot be started. No file is written, because a
 * write may hang and must not run on the program's threads. */
static void send_problem(const char *reason) {
    char host[65], text[256];
    trace_host(host, sizeof host);
    snprintf(text, sizeof text, "%s-%d: %s", host, (int)getpid(), reason);
    notice_send(settings.notice, text);
}

/* Writes the reason why there is no trace to a file that `inferprof run` reads. Service thread only. */
static void write_problem_file(const char *reason) {
    char stem[PATH_MAX + 80], path[PATH_MAX + 128];
    trace_stem(stem, sizeof stem);
    snprintf(path, sizeof path, "%s.problem", stem);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return;
    ssize_t n = write(fd, reason, strlen(reason));
    if (n >= 0) n = write(fd, "\n", 1);
    if (n < 0) unlink(path);
    close(fd);
}

/* Reads the command line, with spaces between the words. Masks secrets; control characters become '?'. */
static void read_command(char *text, size_t cap) {
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, cap - 1);
    if (fd >= 0) close(fd);
    n = (ssize_t)secret_mask_args(text, (size_t)MAX(n, 0));
    while (n > 0 && text[n - 1] == '\0') n--;
    for (ssize_t i = 0; i < n; i++)
        text[i] = text[i] == '\0' ? ' ' : (unsigned char)text[i] < ' ' ? '?' : text[i];
    text[n] = '\0';
}

static void describe_rank(struct trace_writer *w) {
    const struct launcher *l = &out.launcher;
    const struct {
        const char *key;
        uint32_t v;
    } numbers[] = { { "rank", l->rank },
                    { "world_size", l->world_size },
                    { "local_rank", l->local_rank },
                    { "local_size", l->local_size },
                    { "node_rank", l->node_rank } };
    for (size_t i = 0; i < COUNTOF(numbers); i++)
        if (numbers[i].v != LAUNCHER_UNKNOWN) trace_writer_meta(w, numbers[i].key, "%u", numbers[i].v);
    trace_writer_meta(w, "node", "%s", l->node);
    if (l->name) trace_writer_meta(w, "launcher", "%s", l->name);
    if (l->job[0]) trace_writer_meta(w, "job", "%s", l->job);
}

static void describe_process(struct trace_writer *w) {
    char text[4096], name[64];
    trace_writer_meta(w, "clock", "unix");
    trace_writer_meta(w, "source", "collector");
    trace_writer_meta(w, "inferprof.version", "%s", INFERPROF_VERSION);
    trace_writer_meta(w, "process.pid", "%d", (int)getpid());
    trace_writer_meta(w, "process.parent", "%d", (int)getppid());
    read_command(text, sizeof text);
    trace_writer_meta(w, "process.command", "%s", text);
    ssize_t n = readlink("/proc/self/exe", text, sizeof text - 1);
    if (n > 0) trace_writer_meta(w, "process.exe", "%.*s", (int)n, text);
    if (gethostname(text, 256) == 0) trace_writer_meta(w, "host", "%s", text);
    describe_rank(w);
    for (unsigned i = 0; settings_at(&settings, i, name, sizeof name, text, sizeof text); i++) {
        char key[80];
        snprintf(key, sizeof key, "setting.%s", name);
        trace_writer_meta(w, key, "%s", text);
    }
}

/* Writes the problems so far and sets the writer. The lock ensures that a problem that another thread reports
 * meanwhile is written exactly once. */
static void publish(struct trace_writer *w) {
    bool locked = lock_take(&out.lock, &host_locks);
    for (unsigned i = 0; locked && i < out.nproblems; i++)
        trace_writer_meta(w, "problem", "%s", out.problems[i]);
    atomic_fetch_add(&out.generation, 1);
    atomic_store(&out.writer, w);
    if (locked) pthread_mutex_unlock(&out.lock);
}

static void move_losses(struct trace_writer *w) {
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        for (unsigned r = 0; r < TRACE_LOST_REASON_END; r++)
            trace_writer_lost(w, k, r, atomic_exchange(&out.lost[k][r], 0));
}

void output_open(uint64_t until_ns) {
    char stem[PATH_MAX + 80], path[PATH_MAX + 128];
    struct err err;
    (void)until_ns;
    trace_stem(stem, sizeof stem);
    trace_path(stem, path, sizeof path);
    const struct trace_writer_options o = {
        /* 11 of 16 parts; pool.c uses 4, thread.c uses 1 */
        .memory_bytes = settings.memory_bytes / 16 * 11,
        .max_file_bytes = settings.max_file_bytes,
        .flush_ms = FLUSH_MS,
    };
    struct trace_writer *w = trace_writer_open(path, &o, &err);
    if (!w) {
        atomic_store(&out.wanted, false);
        write_problem_file(err.msg);
        return;
    }
    describe_process(w);
    publish(w);
    move_losses(w);
}

/* Opens the file on the service thread. The wait is limited, because the disk may hang. */
static void open_on_service(void) {
    launcher_read(&out.launcher, launcher_env);
    int rc = service_start();
    if (rc == 0) {
        service_run(SERVICE_OPEN, clock_mono_ns() + settings_wait_ns(&settings, 100));
        return;
    }
    atomic_store(&out.wanted, false);
    send_problem(rc == EAGAIN ? "no thread could be started: the limit of processes is reached"
                              : "no thread could be started");
}

bool output_start(void) {
    atomic_store(&out.wanted, true);
    open_on_service();
    return atomic_load(&out.wanted);
}

/* Only one thread waits for the file. Records of other threads are counted as lost until then. */
static void open_in_child(void) {
    if (atomic_exchange(&out.lazy, false)) open_on_service();
}

/* Returns NULL if no file is open. */
static struct trace_writer *take_open(void) {
    if (!atomic_load_explicit(&out.writer, memory_order_relaxed)) return NULL;
    atomic_fetch_add(&out.inside, 1);
    struct trace_writer *w = atomic_load(&out.writer);
    if (!w) atomic_fetch_sub(&out.inside, 1);
    return w;
}

struct trace_writer *output_take(void) {
    if (!host_is_our_process()) return NULL;
    if (atomic_load_explicit(&out.lazy, memory_order_relaxed)) open_in_child();
    return take_open();
}

void output_give(void) { atomic_fetch_sub(&out.inside, 1); }

void output_lost(enum trace_kind kind, enum trace_lost_reason reason, uint64_t n) {
    if (!host_is_our_process()) return;
    struct trace_writer *w = take_open();
    if (w) {
        trace_writer_lost(w, kind, reason, n);
        output_give();
    } else {
        atomic_fetch_add(&out.lost[kind][reason], n);
    }
}

/* A slot contains generation << 32 | string id. */
uint32_t output_string(struct trace_writer *w, const char *text, _Atomic uint64_t *slot) {
    uint64_t v = atomic_load_explicit(slot, memory_order_relaxed);
    uint64_t generation = atomic_load_explicit(&out.generation, memory_order_relaxed);
    if (v >> 32 == generation) return (uint32_t)v;
    uint32_t number = trace_writer_str(w, text);
    atomic_store_explicit(slot, generation << 32 | number, memory_order_relaxed);
    return number;
}

static bool wait_for_takers(uint64_t until_ns) {
    while (atomic_load(&out.inside) > 0 && clock_mono_ns() < until_ns)
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    return atomic_load(&out.inside) == 0;
}

/* The writer is freed only if no thread can still use it. */
void output_close(uint64_t until_ns) {
    struct err err;
    atomic_store(&out.lazy, false);
    atomic_store(&out.wanted, false);
    struct trace_writer *w = atomic_exchange(&out.writer, NULL);
    if (!w) return;
    wait_for_takers(MIN(until_ns, clock_mono_ns() + GRACE_MS * (uint64_t)1000000));
    move_losses(w);
    if (trace_writer_end(w, until_ns) && wait_for_takers(0)) trace_writer_close(w, &err);
}

void output_after_fork(void) {
    struct trace_writer *w = atomic_exchange(&out.writer, NULL);
    pthread_mutex_init(&out.lock, NULL);
    atomic_store(&out.inside, 0);
    if (w) trace_writer_abandon(w);
    out.nproblems = 0;
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        for (unsigned r = 0; r < TRACE_LOST_REASON_END; r++) atomic_store(&out.lost[k][r], 0);
    atomic_store(&out.lazy, atomic_load(&out.wanted));
}

void report_problem(const char *fmt, ...) {
    char text[sizeof out.problems[0]];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct trace_writer *w = NULL;
    if (!lock_take(&out.lock, &host_locks)) return;
    unsigned i = 0;
    while (i < out.nproblems && strcmp(out.problems[i], text) != 0) i++;
    if (i == out.nproblems && i < MAX_PROBLEMS) {
        memcpy(out.problems[out.nproblems++], text, sizeof text);
        w = take_open(); /* NULL: publish() writes the problem */
    }
    pthread_mutex_unlock(&out.lock);
    if (!w) return;
    trace_writer_meta(w, "problem", "%s", text);
    output_give();
}
