#include "collect/activity.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "collect/cupti.h"
#include "collect/host.h"
#include "collect/output.h"
#include "collect/pool.h"
#include "collect/raw.h"
#include "collect/records.h"

static atomic_ullong buffers_returned;
static bool graphs_from_start;

/* Does not use host_enter(), because CUPTI may call this function inside another callback of ours. */
static void on_buffer_requested(uint8_t **buffer, size_t *bytes, size_t *max_records) {
    int saved_errno = errno;
    host_thread.depth++;
    *buffer = pool_take(bytes);
    *max_records = 0;
    host_thread.depth--;
    errno = saved_errno;
}

static void read_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
    size_t dropped = 0;
    bool has_records = buffer && valid > 0 && valid <= bytes && !settings.empty;
    struct trace_writer *w = has_records ? output_take() : NULL;
    atomic_fetch_add(&buffers_returned, 1);
    if (w) {
        if (cupti.dropped(context, stream, &dropped) != CUPTI_OK) dropped = 0;
        raw_buffer(buffer, valid);
        records_read(w, buffer, valid, dropped);
        output_give();
    } else if (has_records) {
        records_lose(buffer, valid);
    }
    if (buffer) pool_give(buffer);
}

static void on_buffer_returned(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
    int saved_errno = errno;
    host_thread.depth++;
    read_buffer(context, stream, buffer, bytes, valid);
    host_thread.depth--;
    errno = saved_errno;
}

uint64_t activity_buffers(void) { return atomic_load(&buffers_returned); }

/* ---- enabling record kinds */
static const char *remedy(int rc) {
    switch (rc) {
    case CUPTI_E_PRIVILEGES:
        return "the driver restricts profiling to administrators: run as root, or load the nvidia module "
               "with NVreg_RestrictProfilingToAdminUsers=0";
    case CUPTI_E_VIRTUALIZED:
        return "this virtual GPU does not allow profiling: use a vGPU profile that does";
    case CUPTI_E_MIG: return "this CUPTI cannot profile MIG devices: use a newer CUDA";
    case CUPTI_E_MULTIPLE_SUBSCRIBERS: return "another tool is profiling this process";
    default: return "check that CUPTI and the driver match (inferprof doctor)";
    }
}

static void set_kind(int kind, const char *name, bool on) {
    int rc = on ? cupti.enable(kind) : cupti.disable(kind);
    if (rc != CUPTI_OK && on)
        report_problem("no %s were recorded: CUPTI returned %s; %s", name, cupti_error(rc), remedy(rc));
}

/* Whole-graph records are enabled before the first graph exists and stay enabled, even outside of windows:
 * CUPTI 13.0.1 crashes if a graph is launched that was created while they were disabled. */
bool activity_start(void) {
    records_start();
    int rc = cupti.register_buffers(on_buffer_requested, on_buffer_returned);
    if (rc != CUPTI_OK)
        report_problem("no kernels were recorded: registering buffers failed (%s)", cupti_error(rc));
    graphs_from_start = rc == CUPTI_OK && settings.kernels && settings.whole_graphs;
    if (graphs_from_start) set_kind(KIND_GRAPH_TRACE, "CUDA graphs", true);
    return rc == CUPTI_OK;
}

void activity_capture(bool on) {
    if (settings.arms && graphs_from_start) /* overhead measurements disable whole-graph records too */
        set_kind(KIND_GRAPH_TRACE, "CUDA graphs", on && settings.whole_graphs);
    if (settings.kernels) set_kind(KIND_CONCURRENT_KERNEL, "kernels", on);
    if (!settings.copies) return;
    set_kind(KIND_MEMCPY, "copies", on);
    set_kind(KIND_MEMCPY2, "peer copies", on);
    set_kind(KIND_MEMSET, "memsets", on);
}

void activity_after_fork(void) { atomic_store(&buffers_returned, 0); }
