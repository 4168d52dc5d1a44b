/* inferprof-counters FILE.ipt INTERVAL_NS [DEVICE...]: samples hardware counters until end of file on
 * standard input, or SIGTERM. Started by `inferprof run --counters` and `inferprof profile`. It is a separate
 * program because the inferprof process does not load CUDA. Writes one of these lines to standard output:
 *     ready METRICS        sampling has started on all possible devices; METRICS: those of the first device
 *     failed REASON        no device can be sampled
 * The lines "pause" and "resume" on standard input pause and resume sampling. When that is done, the
 * program answers "paused" or "ready" (tests/gpu/counters_overhead.py uses this to measure the overhead of
 * sampling within one process). */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fixed.h"
#include "base/util.h"
#include "counters/sampler.h"

#define MAX_DEVICES 16
#define STOP_LIMIT_S 2 /* maximum time from end of file or SIGTERM to the end of all samplers */
/* time to write the last records if a sampler hangs; after half of it, the writer waits for no lock */
#define WRITE_LIMIT_NS 1000000000
#define LOW_PRIORITY 10 /* nice value: the profiled program's host threads have priority */

static atomic_bool stop, pausing;

static void on_signal(int number) {
    (void)number;
    atomic_store(&stop, true);
}

struct worker {
    struct sampler sampler;
    struct err err;
    pthread_t thread;
    bool running;
    atomic_bool ended; /* the thread's loop has ended, because of `stop` or because sampling failed */
};

static void *worker_main(void *arg) {
    struct worker *w = arg;
    if (sampler_loop(&w->sampler, &w->err) < 0)
        trace_writer_meta(w->sampler.trace, "problem", "counters of GPU %zu: %s", w->sampler.device,
                          w->err.msg);
    atomic_store(&w->ended, true);
    return NULL;
}

static void name_device(const struct pm_api *api, struct trace_writer *trace, size_t device) {
    char key[64], name[128] = "", uuid[DRIVER_UUID_MAX];
    snprintf(key, sizeof key, "device.%zu.name", device);
    if (api->driver->device_name(name, sizeof name, (int)device) == 0)
        trace_writer_meta(trace, key, "%s", name);
    snprintf(key, sizeof key, "device.%zu.uuid", device);
    driver_uuid(api->driver, (int)device, uuid);
    if (*uuid) trace_writer_meta(trace, key, "%s", uuid);
}

static int start_worker(struct worker *w) {
    if (sampler_open(&w->sampler, &w->err) < 0) return -1;
    if (pthread_create(&w->thread, NULL, worker_main, w) != 0)
        return err_set(&w->err, "cannot start a thread for GPU %zu", w->sampler.device);
    w->running = true;
    return 0;
}

/* Pauses or resumes all samplers, waits until they have done so, and answers. */
static void set_paused(struct worker *workers, size_t n, bool on) {
    atomic_store(&pausing, on);
    for (size_t i = 0; i < n; i++)
        while (workers[i].running && !workers[i].ended && atomic_load(&workers[i].sampler.paused) != on &&
               !atomic_load(&stop))
            nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
    printf(on ? "paused\n" : "ready\n");
    fflush(stdout);
}

/* Commands are identified by their first letter. Input may arrive in pieces, so `in_line` persists between
 * calls. */
static void handle_commands(struct worker *workers, size_t n, const char *text, size_t bytes) {
    static bool in_line;
    for (size_t i = 0; i < bytes; i++) {
        if (!in_line && (text[i] == 'p' || text[i] == 'r')) set_paused(workers, n, text[i] == 'p');
        in_line = text[i] != '\n';
    }
}

static void wait_for_stop(struct worker *workers, size_t n) {
    char text[64];
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    while (!atomic_load(&stop)) {
        if (poll(&in, 1, 100) <= 0) continue;
        ssize_t got = read(STDIN_FILENO, text, sizeof text);
        if (got <= 0) break;
        handle_commands(workers, n, text, (size_t)got);
    }
    atomic_store(&stop, true);
}

/* Exits without waiting for a sampler that hangs in CUPTI. Its samples so far are in the file, and the
 * exit releases the counters for other tools. The evaluators still run and may append samples. Therefore the
 * writer ends its file but is not freed. */
static void abandon_sampler(struct trace_writer *trace, size_t device) {
    trace_writer_meta(trace, "problem",
                      "counters of GPU %zu: sampling did not stop within %d s; its last samples are lost",
                      device, STOP_LIMIT_S);
    uint64_t now_ns = clock_mono_ns();
    trace_writer_limit_locks(trace, now_ns + WRITE_LIMIT_NS / 2);
    trace_writer_end(trace, now_ns + WRITE_LIMIT_NS);
    _exit(0);
}

static void finish_worker(struct worker *w, const struct timespec *until) {
    char key[64], decode[FIXED_MAX], evaluate[FIXED_MAX];
    struct sampler *s = &w->sampler;
    const struct evaluators *e = &s->evaluators;
    if (w->running && pthread_timedjoin_np(w->thread, NULL, until) != 0) abandon_sampler(s->trace, s->device);
    snprintf(key, sizeof key, "counters.%zu", s->device);
    if (w->running)
        trace_writer_meta(
            s->trace, key,
            "samples %llu, missing %llu, overflows %llu, out of order %llu, trigger by %s, "
            "chip %s; metrics %zu, "
            "us to decode a sample %s, to evaluate it %s on each of %zu threads",
            (unsigned long long)e->samples, (unsigned long long)e->missing, (unsigned long long)s->overflows,
            (unsigned long long)e->out_of_order, s->by_clock ? "clock" : "time", s->chip, s->metrics.n,
            fixed_text(1e-3 * (double)s->decode_ns / (double)MAX(s->decoded, 1), 1, decode),
            fixed_text(1e-3 * (double)e->busy_ns / (double)MAX(s->decoded, 1), 1, evaluate), e->nthreads);
    sampler_close(s);
}

/* Returns the metrics of the first device that is being sampled; they may differ by chip. */
static const char *metrics_of_first_running(const struct worker *workers, size_t n) {
    size_t i = 0;
    while (i < n && !workers[i].running) i++;
    return i < n && workers[i].sampler.metrics.listed ? workers[i].sampler.metrics.listed : "";
}

static int sample_devices(const struct pm_api *api, struct trace_writer *trace, uint64_t interval_ns,
                          const size_t *devices, size_t n) {
    static struct worker workers[MAX_DEVICES];
    size_t running = 0;
    struct err first = { "" };
    for (size_t i = 0; i < n; i++) {
        struct worker *w = &workers[i];
        w->sampler = (struct sampler){ .api = api,
                                       .trace = trace,
                                       .device = devices[i],
                                       .interval_ns = interval_ns,
                                       .stop = &stop,
                                       .pause = &pausing };
        name_device(api, trace, devices[i]);
        if (start_worker(w) == 0) {
            running++;
            continue;
        }
        trace_writer_meta(trace, "problem", "counters of GPU %zu: %s", devices[i], w->err.msg);
        if (!first.msg[0]) first = w->err;
    }
    if (running)
        printf("ready %s\n", metrics_of_first_running(workers, n));
    else
        printf("failed %s\n", first.msg);
    fflush(stdout);
    if (running) wait_for_stop(workers, n);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_LIMIT_S;
    for (size_t i = 0; i < n; i++) finish_worker(&workers[i], &until);
    return running ? 0 : 1;
}

/* Selects the devices given as arguments, or all devices if there are none; at most MAX_DEVICES. */
static size_t pick_devices(const struct pm_api *api, int argc, char **argv, size_t *devices) {
    size_t n = 0;
    int count = 0;
    for (int i = 0; i < argc && n < MAX_DEVICES; i++) devices[n++] = strtoul(argv[i], NULL, 10);
    if (n == 0 && api->driver->device_count(&count) == 0)
        for (int i = 0; i < MIN(count, MAX_DEVICES); i++) devices[n++] = (size_t)i;
    return n;
}

int main(int argc, char **argv) {
    struct pm_api api;
    struct err err;
    size_t devices[MAX_DEVICES];
    if (argc < 3) {
        fprintf(stderr, "usage: inferprof-counters FILE.ipt INTERVAL_NS [DEVICE...]\n");
        return 2;
    }
    signal(SIGTERM, on_signal);
    /* Ctrl-C is intended for the program; this process ends at the end of standard input */
    signal(SIGINT, SIG_IGN);
    setpriority(PRIO_PROCESS, 0, LOW_PRIORITY);
    if (pm_api_open(&api, &err) < 0) {
        printf("failed %s\n", err.msg);
        return 1;
    }
    struct trace_writer *trace = trace_writer_open(argv[1], NULL, &err);
    if (!trace) {
        printf("failed %s\n", err.msg);
        return 1;
    }
    trace_writer_meta(trace, "source", "counters");
    trace_writer_meta(trace, "clock", "unix");
    trace_writer_meta(trace, "setting.counter_interval_ns", "%s", argv[2]);
    trace_writer_meta(trace, "cupti.path", "%s", api.cupti_path);
    size_t n = pick_devices(&api, argc - 3, argv + 3, devices);
    int status = sample_devices(&api, trace, strtoull(argv[2], NULL, 10), devices, n);
    if (trace_writer_close(trace, &err) < 0) {
        fprintf(stderr, "inferprof-counters: %s\n", err.msg);
        status = 1;
    }
    return status;
}
