#include "collect/output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/secret.h"
#include "base/clock.h"
#include "base/util.h"

#ifndef INFERPROF_VERSION
#define INFERPROF_VERSION "unknown"
#endif
#define MAX_PROBLEMS 32
#define FLUSH_MS 200 /* a crash loses at most this, besides what CUPTI holds in buffers that are not full */

struct settings settings;

static struct {
    _Atomic(struct trace_writer *) writer;
    atomic_int inside;      /* threads between take and give */
    atomic_bool lazy;       /* after fork: open the file at the first record */
    atomic_uint generation; /* counts the files opened by this process */
    pthread_mutex_t lock;   /* for opening and `problems`; never held during a write */
    char problems[MAX_PROBLEMS][512];
    unsigned nproblems;
} out = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void trace_path(char *path, size_t cap) {
    char host[65] = "host";
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ". /")] = '\0';
    snprintf(path, cap, "%s/%s-%d.ipt", settings.dir, host, (int)getpid());
    /* After exec() the pid is the same: keep the earlier file. */
    for (int n = 2; access(path, F_OK) == 0 && n < 1000; n++)
        snprintf(path, cap, "%s/%s-%d-%d.ipt", settings.dir, host, (int)getpid(), n);
}

/* The command line, words separated by spaces; control characters become '?'. */
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
    static const char *const names[][2] = { { "rank", "RANK" },
                                            { "rank", "OMPI_COMM_WORLD_RANK" },
                                            { "rank", "SLURM_PROCID" },
                                            { "world_size", "WORLD_SIZE" },
                                            { "world_size", "OMPI_COMM_WORLD_SIZE" } };
    const char *last = "";
    for (size_t i = 0; i < COUNTOF(names); i++) {
        const char *v = getenv(names[i][1]);
        if (!v || !*v || strspn(v, "0123456789") != strlen(v) || strcmp(last, names[i][0]) == 0) continue;
        trace_writer_meta(w, names[i][0], "%s", v);
        last = names[i][0];
    }
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

/* Called with the lock held. */
static bool open_locked(void) {
    char path[PATH_MAX + 128];
    struct err err;
    trace_path(path, sizeof path);
    const struct trace_writer_options o = {
        /* of 16 parts: 11 here, 4 for CUPTI's buffers (pool.c), 1 for launch rings (thread.c) */
        .memory_bytes = settings.memory_bytes / 16 * 11,
        .max_file_bytes = settings.max_file_bytes,
        .flush_ms = FLUSH_MS,
    };
    struct trace_writer *w = trace_writer_open(path, &o, &err);
    if (!w) return false;
    describe_process(w);
    for (unsigned i = 0; i < out.nproblems; i++) trace_writer_meta(w, "problem", "%s", out.problems[i]);
    atomic_fetch_add(&out.generation, 1);
    atomic_store(&out.writer, w);
    return true;
}

bool output_open(void) {
    pthread_mutex_lock(&out.lock);
    bool ok = atomic_load(&out.writer) || open_locked();
    pthread_mutex_unlock(&out.lock);
    return ok;
}

static void open_in_child(void) {
    if (pthread_mutex_trylock(&out.lock) != 0)
        return; /* another thread is opening it; this record is dropped */
    if (atomic_exchange(&out.lazy, false)) open_locked();
    pthread_mutex_unlock(&out.lock);
}

struct trace_writer *output_take(void) {
    if (atomic_load_explicit(&out.lazy, memory_order_relaxed)) open_in_child();
    if (!atomic_load_explicit(&out.writer, memory_order_relaxed)) return NULL;
    atomic_fetch_add(&out.inside, 1);
    struct trace_writer *w = atomic_load(&out.writer);
    if (!w) atomic_fetch_sub(&out.inside, 1);
    return w;
}

void output_give(void) { atomic_fetch_sub(&out.inside, 1); }

/* A slot holds generation << 32 | number. */
uint32_t output_string(struct trace_writer *w, const char *text, _Atomic uint64_t *slot) {
    uint64_t v = atomic_load_explicit(slot, memory_order_relaxed);
    uint64_t generation = atomic_load_explicit(&out.generation, memory_order_relaxed);
    if (v >> 32 == generation) return (uint32_t)v;
    uint32_t number = trace_writer_str(w, text);
    atomic_store_explicit(slot, generation << 32 | number, memory_order_relaxed);
    return number;
}

void output_close(unsigned grace_ms) {
    atomic_store(&out.lazy, false);
    struct trace_writer *w = atomic_exchange(&out.writer, NULL);
    uint64_t deadline = clock_mono_ns() + grace_ms * (uint64_t)1000000;
    struct err err;
    if (!w) return;
    while (atomic_load(&out.inside) > 0 && clock_mono_ns() < deadline) {
        struct timespec t = { 0, 200000 };
        nanosleep(&t, NULL);
    }
    if (atomic_load(&out.inside) == 0)
        trace_writer_close(w, &err);
    else
        trace_writer_flush(w, 100);
}

void output_after_fork(void) {
    struct trace_writer *w = atomic_exchange(&out.writer, NULL);
    pthread_mutex_init(&out.lock, NULL);
    atomic_store(&out.inside, 0);
    if (w) trace_writer_abandon(w);
    out.nproblems = 0;
    atomic_store(&out.lazy, w != NULL);
}

void report_problem(const char *fmt, ...) {
    char text[sizeof out.problems[0]];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&out.lock);
    unsigned i = 0;
    while (i < out.nproblems && strcmp(out.problems[i], text) != 0) i++;
    bool fresh = i == out.nproblems && i < MAX_PROBLEMS;
    if (fresh) memcpy(out.problems[out.nproblems++], text, sizeof text);
    pthread_mutex_unlock(&out.lock);
    if (!fresh) return;
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_meta(w, "problem", "%s", text);
    output_give();
}
