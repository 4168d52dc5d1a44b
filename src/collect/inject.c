/* Start and end of the collector in a process. CUDA calls InitializeInjection() in cuInit(), NVTX calls
 * InitializeInjectionNvtx2() at its first use, and NCCL calls its profiler plugin (nccl.c). The first of
 * these calls opens the trace. The end runs at exit.
 *
 * The collector runs inside the user's program (docs/collector-promises.md lists the tests of these points):
 *   - It does not print, exit, fail or change the program's behaviour. On an error the program continues
 *     without it, and the trace contains the reason.
 *   - It checks the trace's descriptor (device and inode) before each write.
 *   - It does not change the program's errno, signal mask, signal handlers, locale or descriptors.
 *   - Exit waits at most settings.wait_ms for the collector, even if CUPTI, the disk or a lock hangs. Data
 *     that was not written by then is lost. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fixed.h"
#include "base/own_thread.h"
#include "base/util.h"
#include "collect/abi.h"
#include "collect/activity.h"
#include "collect/attach.h"
#include "collect/background.h"
#include "collect/budget.h"
#include "collect/call_clock.h"
#include "collect/clocks.h"
#include "collect/cupti.h"
#include "collect/devices.h"
#include "collect/gemm.h"
#include "collect/host.h"
#include "collect/inject.h"
#include "collect/last_thread.h"
#include "collect/layout.h"
#include "collect/model_files.h"
#include "collect/modules.h"
#include "collect/nccl.h"
#include "collect/nvtx.h"
#include "collect/nvtx_ranges.h"
#include "collect/output.h"
#include "collect/pool.h"
#include "collect/raw.h"
#include "collect/records.h"
#include "collect/replays.h"
#include "collect/service.h"
#include "collect/thread.h"
#include "collect/window.h"

#define EXPORT __attribute__((visibility("default")))
/* Parts of settings.wait_ms: */
#define FLUSH_PERCENT 60 /* for CUPTI's last records */
#define LOCK_PERCENT 80  /* for locks of other threads */
#define FILES_PERCENT 10 /* for a running model-file scan */
#define STUCK_LOCK_MS 50 /* if our code was interrupted */
#define MIN_CALLS 100    /* for warnings about missing records */

EXPORT int InitializeInjection(void);
EXPORT int InitializeInjectionNvtx2(nvtx_get_table get_table);

static pthread_once_t start_once = PTHREAD_ONCE_INIT, start_gpu_once = PTHREAD_ONCE_INIT;
static atomic_bool active, gpu_on, ended;

static void write_thread_name(uint32_t tid) {
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%u/comm", tid);
    FILE *f = fopen(path, "re");
    struct trace_writer *w = f && fgets(name, sizeof name, f) ? output_take() : NULL;
    if (f) fclose(f);
    if (!w) return;
    char key[48];
    snprintf(key, sizeof key, "thread.%u.name", tid);
    name[strcspn(name, "\n")] = '\0';
    trace_writer_meta(w, key, "%s", name);
    output_give();
}

/* Also warns if many records are missing. */
static void write_counts(void) {
    struct record_counts c = records_counts();
    uint64_t calls = thread_recorded_calls(), records = c.kernels + c.copies + c.untrusted;
    if (settings.kernels && !settings.empty && c.kernels == 0 && calls > 0)
        report_problem("no kernels were recorded, although %llu launches and copies were seen: the program's "
                       "own use of CUPTI (torch.profiler?) took over the records; disable it",
                       (unsigned long long)calls);
    else if (settings.kernels && !settings.empty && calls > MIN_CALLS && records * 2 < calls)
        report_problem("only %llu of %llu launches and copies have a record: CUPTI did not deliver the "
                       "others, or they were captured into CUDA graphs that were not launched",
                       (unsigned long long)records, (unsigned long long)calls);
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_meta(
        w, "collector.counts",
        "kernels %llu graph_kernels %llu copies %llu calls %llu buffers %llu untrusted %llu early %llu "
        "unknown %llu outside %llu left %u detach_us %llu",
        (unsigned long long)c.kernels, (unsigned long long)c.graph_kernels, (unsigned long long)c.copies,
        (unsigned long long)calls, (unsigned long long)activity_buffers(), (unsigned long long)c.untrusted,
        (unsigned long long)c.early, (unsigned long long)c.unknown, (unsigned long long)c.outside,
        attach_detach_count(), (unsigned long long)(attach_detach_ns() / 1000));
    output_give();
}

static void write_end_time(uint64_t start_ns) {
    char ms[FIXED_MAX];
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_meta(w, "collector.stop_ms", "%s",
                      fixed_text((double)(clock_mono_ns() - start_ns) / 1e6, 1, ms));
    output_give();
}

/* Runs on the service thread. Every wait has a limit: its own, `host_locks` or `until_ns`. */
static void end_trace(uint64_t until_ns) {
    uint64_t start_ns = clock_mono_ns();
    bool gpu = atomic_load(&gpu_on);
    struct trace_writer *w = output_take();
    if (w) {
        trace_writer_limit_locks(w, atomic_load(&host_locks));
        output_give();
    }
    if (gpu) window_finish();
    uint64_t flush_ns = settings_wait_ns(&settings, FLUSH_PERCENT);
    if (!background_stop(MIN(until_ns, start_ns + flush_ns)))
        report_problem(
            "the last kernels may be missing: CUPTI did not deliver them within %llu ms of the program's end",
            (unsigned long long)(flush_ns / 1000000));
    model_files_stop(MIN(until_ns, clock_mono_ns() + settings_wait_ns(&settings, FILES_PERCENT)));
    thread_drain_rest();
    nvtx_ranges_finish();
    nccl_finish();
    thread_each(write_thread_name);
    if (gpu) write_counts();
    write_end_time(start_ns);
    output_close(until_ns);
}

/* Runs at exit, on the thread that called exit(). If a signal handler called exit() while our code ran on
 * this thread, the interrupted code never continues and its locks stay held. The wait for locks is short
 * then. */
static void collector_end(void) {
    int saved_errno = errno;
    uint64_t now = clock_mono_ns();
    if (!host_is_exactly_our_process() || atomic_exchange(&ended, true)) return;
    uint64_t lock_ns =
        host_thread.depth ? STUCK_LOCK_MS * (uint64_t)1000000 : settings_wait_ns(&settings, LOCK_PERCENT);
    atomic_store(&host_locks, now + lock_ns);
    service_run(SERVICE_END, now + settings_wait_ns(&settings, 100));
    errno = saved_errno;
}

static void forget_gpu(void) { atomic_store(&gpu_on, false); }

/* In the child, no state of the parent's trace is kept. `modules` includes every file with per-process
 * state. */
static void after_fork(void) {
    static void (*const modules[])(void) = {
        host_after_fork,    service_after_fork,    output_after_fork,      background_after_fork,
        thread_after_fork,  nvtx_after_fork,       attach_after_fork,      window_after_fork,
        budget_after_fork,  records_after_fork,    pool_after_fork,        activity_after_fork,
        devices_after_fork, clocks_after_fork,     call_clock_after_fork,  gemm_after_fork,
        raw_after_fork,     replays_after_fork,    model_files_after_fork, nccl_after_fork,
        modules_after_fork, own_thread_after_fork, last_thread_after_fork, forget_gpu,
    };
    int saved_errno = errno;
    for (size_t i = 0; i < COUNTOF(modules); i++) modules[i]();
    errno = saved_errno;
}

/* The program may change its working directory before a child opens a trace. */
static void make_dir_absolute(void) {
    static char here[sizeof settings.dir], name[sizeof settings.dir]; /* static: stacks may be small */
    if (settings.dir[0] == '/' || !getcwd(here, sizeof here)) return;
    memcpy(name, settings.dir, sizeof name);
    size_t n = strlen(here);
    if (n + 1 + strlen(name) < sizeof settings.dir) {
        memcpy(settings.dir, here, n);
        settings.dir[n] = '/';
        strcpy(settings.dir + n + 1, name);
    }
}

static void collector_start(void) {
    settings_load(&settings, report_problem);
    if (!settings.dir[0]) return;
    make_dir_absolute();
    host_start();
    last_thread_start();
    service_set(output_open, end_trace);
    pthread_atfork(modules_before_fork, modules_after_parent_fork, after_fork);
    atomic_store(&active, output_start());
    if (atomic_load(&active)) atexit(collector_end);
}

static void describe_cupti(void) {
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_meta(w, "cupti.version", "%u", cupti.version);
    trace_writer_meta(w, "cupti.path", "%s", cupti.path);
    if (cupti.version / 100 > layout_newest() / 100)
        trace_writer_meta(w, "problem",
                          "CUPTI %u is newer than the versions this collector was tested with: its records "
                          "are read with the layout of %u",
                          cupti.version, layout_newest());
    output_give();
}

static void collector_start_gpu(void) {
    if (!atomic_load(&active)) return;
    /* In the child of a fork, the first record opens the file, and records of other threads are lost until
     * then. Therefore the file is opened here, before our own threads write records. */
    if (output_take()) output_give();
    devices_load();
    devices_request();
    if (!background_start()) {
        report_problem("no kernels were recorded: no thread could be started for CUPTI");
        return;
    }
    model_files_start();
    bool any = settings.kernels || settings.copies || settings.launches || settings.syncs;
    if (!any || !cupti_load()) return;
    describe_cupti();
    raw_start(cupti.version);
    clocks_start();
    if (!attach_start()) return;
    atomic_store(&gpu_on, true);
    window_start();
    background_watch_gpu();
}

bool inject_start(void) {
    pthread_once(&start_once, collector_start);
    return atomic_load(&active);
}

int InitializeInjection(void) {
    int saved_errno;
    if (!host_enter(&saved_errno)) return 1;
    pthread_once(&start_once, collector_start);
    pthread_once(&start_gpu_once, collector_start_gpu);
    host_leave(saved_errno);
    return 1;
}

int InitializeInjectionNvtx2(nvtx_get_table get_table) {
    int saved_errno;
    if (!host_enter(&saved_errno)) return 0;
    pthread_once(&start_once, collector_start);
    int attached = atomic_load(&active) && settings.nvtx && nvtx_attach(get_table);
    host_leave(saved_errno);
    return attached;
}
