/* Start and end of the collector in a process. CUDA calls InitializeInjection() in cuInit(), NVTX calls
 * InitializeInjectionNvtx2() at its first use; the first of the two opens the trace. The end runs at exit.
 * Nothing here may print, exit or make the program fail: on any error the program runs on without the
 * collector, and the trace holds the reason. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fixed.h"
#include "collect/abi.h"
#include "collect/activity.h"
#include "collect/attach.h"
#include "collect/callbacks.h"
#include "collect/clocks.h"
#include "collect/cupti.h"
#include "collect/devices.h"
#include "collect/background.h"
#include "collect/layout.h"
#include "collect/nvtx.h"
#include "collect/output.h"
#include "collect/pool.h"
#include "collect/raw.h"
#include "collect/records.h"
#include "collect/thread.h"
#include "collect/window.h"

#define EXPORT __attribute__((visibility("default")))
#define FLUSH_TIMEOUT_MS 600 /* together with the rest, the end takes less than a second */
#define MIN_CALLS 100        /* with fewer calls, missing records are not worth a warning */

EXPORT int InitializeInjection(void);
EXPORT int InitializeInjectionNvtx2(nvtx_get_table get_table);

static pthread_once_t start_once = PTHREAD_ONCE_INIT, start_gpu_once = PTHREAD_ONCE_INIT;
static atomic_bool trace_opened, gpu_on, finished;

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

/* Writes the counts, and warns if many records are missing. */
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
        "unknown %llu outside %llu left %u",
        (unsigned long long)c.kernels, (unsigned long long)c.graph_kernels, (unsigned long long)c.copies,
        (unsigned long long)calls, (unsigned long long)activity_buffers(), (unsigned long long)c.untrusted,
        (unsigned long long)c.early, (unsigned long long)c.unknown, (unsigned long long)c.outside,
        attach_detach_count());
    output_give();
}

static void collector_finish(void) {
    uint64_t start_ns = clock_mono_ns();
    if (!atomic_load(&trace_opened) || atomic_exchange(&finished, true)) return;
    bool gpu = atomic_load(&gpu_on);
    if (gpu) window_finish();
    if (!background_stop(FLUSH_TIMEOUT_MS))
        report_problem(
            "the last kernels may be missing: CUPTI did not deliver them within %d ms of the program's end",
            FLUSH_TIMEOUT_MS);
    thread_drain_all();
    nvtx_finish();
    thread_each(write_thread_name);
    if (gpu) write_counts();
    struct trace_writer *w = output_take();
    if (w) {
        char ms[FIXED_MAX];
        trace_writer_meta(w, "collector.stop_ms", "%s",
                          fixed_text((double)(clock_mono_ns() - start_ns) / 1e6, 1, ms));
        output_give();
    }
    output_close(50);
}

/* In the child: nothing of the parent's trace is kept. CUDA does not work there, NVTX does. */
static void after_fork(void) {
    atomic_store(&gpu_on, false);
    output_after_fork();
    background_after_fork();
    thread_after_fork();
    attach_after_fork();
    pool_after_fork();
    nvtx_after_fork();
}

static void collector_start(void) {
    settings_load(&settings, report_problem);
    if (!settings.dir[0] || !output_open()) return;
    atomic_store(&trace_opened, true);
    pthread_atfork(NULL, NULL, after_fork);
    background_start();
    atexit(collector_finish);
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
    if (!atomic_load(&trace_opened)) return;
    devices_request();
    bool any = settings.kernels || settings.copies || settings.launches || settings.syncs;
    if (!any || !cupti_load()) return;
    describe_cupti();
    raw_start(cupti.version);
    clocks_start();
    if (!attach_start()) return;
    atomic_store(&gpu_on, true);
    background_start(); /* a forked child has no background thread yet */
    window_start();
    background_watch_gpu();
}

int InitializeInjection(void) {
    pthread_once(&start_once, collector_start);
    pthread_once(&start_gpu_once, collector_start_gpu);
    return 1;
}

int InitializeInjectionNvtx2(nvtx_get_table get_table) {
    pthread_once(&start_once, collector_start);
    return atomic_load(&trace_opened) && settings.nvtx && nvtx_attach(get_table);
}
