/* The two doors into a process: CUDA calls InitializeInjection in cuInit(), NVTX calls
 * InitializeInjectionNvtx2 at its first use. Whichever comes first opens the trace. Nothing here may fail
 * loudly: whatever goes wrong, the program runs on as if we were not there, and the trace says why. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/abi.h"
#include "collect/activity.h"
#include "collect/attach.h"
#include "collect/callbacks.h"
#include "collect/clocks.h"
#include "collect/cupti.h"
#include "collect/devices.h"
#include "collect/keeper.h"
#include "collect/layout.h"
#include "collect/nvtx.h"
#include "collect/output.h"
#include "collect/pool.h"
#include "collect/raw.h"
#include "collect/records.h"
#include "collect/thread.h"
#include "collect/window.h"

#define EXPORT __attribute__((visibility("default")))
#define FLUSH_TIMEOUT_MS 600 /* with what follows, an end costs less than a second */

#define MANY_CALLS 100 /* fewer tell nothing about what is missing */

EXPORT int InitializeInjection(void);
EXPORT int InitializeInjectionNvtx2(nvtx_get_table get_table);

static pthread_once_t once = PTHREAD_ONCE_INIT, gpu_once = PTHREAD_ONCE_INIT;
static atomic_bool open_, gpu_on, finished;

static void name_thread(uint32_t tid) {
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

/* What the counts mean to somebody who misses something. */
static void explain_counts(void) {
    struct record_counts c = records_counts();
    uint64_t calls = thread_calls(), records = c.kernels + c.copies + c.untrusted;
    if (settings.kernels && !settings.empty && c.kernels == 0 && calls > 0)
        problem("no kernels were recorded, although %llu launches and copies were seen: the program's own "
                "use of CUPTI "
                "(torch.profiler?) took the records over; switch it off",
                (unsigned long long)calls);
    else if (settings.kernels && !settings.empty && calls > MANY_CALLS && records * 2 < calls)
        problem("of %llu launches and copies only %llu have a record: CUPTI handed out no others, or they "
                "were captured into "
                "CUDA graphs that were not launched",
                (unsigned long long)calls, (unsigned long long)records);
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_meta(
        w, "collector.counts",
        "kernels %llu graph_kernels %llu copies %llu calls %llu buffers %llu untrusted %llu early %llu "
        "unknown %llu outside %llu left %u",
        (unsigned long long)c.kernels, (unsigned long long)c.graph_kernels, (unsigned long long)c.copies,
        (unsigned long long)calls, (unsigned long long)activity_buffers(), (unsigned long long)c.untrusted,
        (unsigned long long)c.early, (unsigned long long)c.unknown, (unsigned long long)c.outside,
        attach_times_left());
    output_give();
}

static void finish(void) {
    uint64_t start = clock_mono_ns();
    if (!atomic_load(&open_) || atomic_exchange(&finished, true)) return;
    bool gpu = atomic_load(&gpu_on);
    if (gpu) window_finish();
    if (!keeper_stop(FLUSH_TIMEOUT_MS))
        problem(
            "the last kernels may be missing: CUPTI did not hand them out within %d ms of the program's end",
            FLUSH_TIMEOUT_MS);
    thread_drain_all();
    nvtx_finish();
    thread_each(name_thread);
    if (gpu) explain_counts();
    struct trace_writer *w = output_take();
    if (w) {
        trace_writer_meta(w, "collector.stop_ms", "%.1f", (double)(clock_mono_ns() - start) / 1e6);
        output_give();
    }
    output_close(50);
}

/* The child keeps nothing of the parent's trace. CUDA does not work in it; NVTX does. */
static void after_fork(void) {
    atomic_store(&gpu_on, false);
    output_after_fork();
    keeper_after_fork();
    thread_after_fork();
    attach_after_fork();
    pool_after_fork();
    nvtx_after_fork();
}

static void start(void) {
    settings_load(&settings, problem);
    if (!settings.dir[0] || !output_open()) return;
    atomic_store(&open_, true);
    pthread_atfork(NULL, NULL, after_fork);
    keeper_start();
    atexit(finish);
}

static void describe_cupti(void) {
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_meta(w, "cupti.version", "%u", cupti.version);
    trace_writer_meta(w, "cupti.path", "%s", cupti.path);
    if (cupti.version / 100 > layout_newest() / 100)
        trace_writer_meta(w, "problem",
                          "CUPTI %u is newer than any this collector was checked with: records are read as "
                          "those of %u",
                          cupti.version, layout_newest());
    output_give();
}

static void start_gpu(void) {
    if (!atomic_load(&open_)) return;
    devices_wanted();
    bool any = settings.kernels || settings.copies || settings.launches || settings.syncs;
    if (!any || !cupti_load()) return;
    describe_cupti();
    raw_start(cupti.version);
    clocks_start();
    if (!attach_start()) return;
    atomic_store(&gpu_on, true);
    keeper_start(); /* a forked child has none yet */
    window_start();
    keeper_watch_gpu();
}

int InitializeInjection(void) {
    pthread_once(&once, start);
    pthread_once(&gpu_once, start_gpu);
    return 1;
}

int InitializeInjectionNvtx2(nvtx_get_table get_table) {
    pthread_once(&once, start);
    return atomic_load(&open_) && settings.nvtx && nvtx_attach(get_table);
}
