#include "report/export_records.h"

#include <math.h>
#include <string.h>

#include "base/util.h"
#include "report/view.h"

enum { NVTX_MARK = 34, NVTX_PUSH_POP = 59, NVTX_START_END = 60 };

uint64_t export_global_pid(const struct export_job *x, uint32_t process) {
    return (uint64_t)(export_sqlite_pid(x, process) & 0xffffff) << 24;
}
/* Thread ids of Linux are below 2^22. Importers make larger ones for threads of two processes with equal
 * ids. */
uint64_t export_global_tid(const struct export_job *x, uint32_t thread) {
    const struct timeline_thread *t = &x->tl->threads[thread];
    const uint32_t large = 1u << 23;
    return export_global_pid(x, t->process) | (t->tid < large ? t->tid : large | (thread & (large - 1)));
}
/* The low byte is the GPU. */
uint64_t export_metric_type(uint32_t set, uint32_t device) { return (uint64_t)set << 8 | (device & 0xff); }

bool export_is_driver_call(const char *api) {
    return strncmp(api, "cu", 2) == 0 && strncmp(api, "cuda", 4) != 0;
}

size_t export_count(const struct export_table *t, const struct timeline *tl) {
    return *(const size_t *)(const void *)((const char *)tl + t->count);
}

bool export_argument(const struct export_column *column, const struct export_row *row,
                     struct column_value *out) {
    if (!column->argument) return false;
    *out = column->get(row);
    return export_is_known(column, *out);
}

bool export_is_known(const struct export_column *column, struct column_value v) {
    if (v.type == COLUMN_NONE || (v.type == COLUMN_STR && !v.str) || (v.type == COLUMN_F64 && isnan(v.f64)))
        return false;
    if (column->use != EXPORT_ID) return true;
    if (v.type == COLUMN_STR) return *v.str != 0;
    return v.type == COLUMN_DIMS ? v.dims[0] != 0 : v.u64 != 0;
}

/* ---- values */

#define U column_u64
#define S column_str
#define F column_f64
#define TEXT(text) column_str(timeline_text(tl, text))
#define NONE ((struct column_value){ .type = COLUMN_NONE })

static struct column_value known(uint32_t v) { return v == TRACE_UNKNOWN_U32 ? NONE : U(v); }
static struct column_value known_u64(uint64_t v) { return v == TRACE_UNKNOWN_U64 ? NONE : U(v); }
static struct column_value kernel_time(const struct timeline *tl, size_t i, uint64_t ns) {
    return tl->collectives.v[i].flags & TRACE_COLLECTIVE_KERNEL_TIMES ? U(ns) : NONE;
}
static struct column_value range_name(const struct timeline *tl, uint32_t range) {
    return S(range == TIMELINE_NONE ? "" : timeline_text(tl, tl->ranges.name[range]));
}
/* index of the launch + 1; 0: none */
static struct column_value correlation_id(uint32_t launch) {
    return U(launch == TIMELINE_NONE ? 0 : (uint64_t)launch + 1);
}
static const struct analysis_kernel *kernel_class(const struct export_job *x, size_t i) {
    return x->a && x->a->shape_kernel ? &x->a->kernels[x->a->shape_kernel[x->tl->kernels.shape[i]]] : NULL;
}
static const char *short_name(const struct export_job *x, size_t i) {
    const struct analysis_kernel *k = kernel_class(x, i);
    return k ? k->short_name : export_kernel_name(x, i);
}
static const char *category_name(const struct export_job *x, size_t i) {
    const struct analysis_kernel *k = kernel_class(x, i);
    return k ? kernel_category_name(k->category) : NULL;
}
static const char *library_name(const struct export_job *x, size_t i) {
    const struct analysis_kernel *k = kernel_class(x, i);
    return k ? kernel_library_name(k->library) : NULL;
}
static const struct timeline_shape *shape_of(const struct timeline *tl, size_t i) {
    return &tl->shapes[tl->kernels.shape[i]];
}
static const char *stage_name(const struct export_job *x, size_t i) {
    const struct analysis *a = x->a;
    uint32_t o = a && a->kernel_occurrence ? a->kernel_occurrence[i] : ANALYSIS_NONE;
    return o == ANALYSIS_NONE ? NULL : view_stage_name(a, a->occurrences[o].stage);
}
static const char *api_name(const struct timeline *tl, size_t i) {
    const char *api = timeline_text(tl, tl->launches.api[i]);
    return *api ? api : "launch";
}
static uint64_t copy_kind(unsigned kind) {
    static const int kinds[TRACE_COPY_KIND_END] = { 0, 1, 2, 8, 9, 10, 0 };
    return kind < TRACE_COPY_KIND_END ? (uint64_t)kinds[kind] : 0;
}
static unsigned range_type(unsigned flags) {
    return flags & TRACE_RANGE_MARK ? NVTX_MARK : flags & TRACE_RANGE_FREE ? NVTX_START_END : NVTX_PUSH_POP;
}
uint64_t export_nvtx_category(unsigned category) { return (uint64_t)category + 1; }
/* Bytes per second as an integer; 0: unknown, or not a bandwidth. */
static uint64_t bandwidth(double v) { return v > 0 && v < 9e18 ? (uint64_t)v : 0; }
static uint64_t max_warps(const struct timeline_device *d) {
    return d->warp_size ? d->max_threads_per_sm / d->warp_size : 0;
}

/* ---- columns: X(kind, id, csv, sql, argument, use, value). The expression `value` can use tl (timeline),
 * x (export_job), i (index of the record) and r (export_row). */

/* clang-format off */
#define TIMES(X, kind, from) \
    X(kind, start, "start_ns", "start", NULL, EXPORT_TIME, U(tl->from.start_ns[i])) \
    X(kind, end, "end_ns", "end", NULL, EXPORT_TIME, U(tl->from.end_ns[i])) \
    X(kind, duration, "duration_ns", NULL, NULL, EXPORT_VALUE, U(tl->from.end_ns[i] - tl->from.start_ns[i]))
#define LANE(X, kind, from, context_csv) \
    X(kind, device, "device", "deviceId", "device", EXPORT_VALUE, U(export_device_number(x, tl->lanes[tl->from.lane[i]].device))) \
    X(kind, context, context_csv, "contextId", "context", EXPORT_VALUE, U(tl->lanes[tl->from.lane[i]].context)) \
    X(kind, green, NULL, "greenContextId", NULL, EXPORT_VALUE, U(0)) \
    X(kind, stream, "stream", "streamId", "stream", EXPORT_VALUE, U(tl->lanes[tl->from.lane[i]].stream)) \
    X(kind, correlation, "correlation", "correlationId", "correlation", EXPORT_ID, correlation_id(tl->from.launch[i])) \
    X(kind, pid, NULL, "globalPid", NULL, EXPORT_VALUE, U(export_global_pid(x, tl->lanes[tl->from.lane[i]].process)))
#define THREAD(X, kind, thread) \
    X(kind, pid, "pid", NULL, NULL, EXPORT_VALUE, U(export_pid(x, tl->threads[thread].process))) \
    X(kind, tid, "tid", NULL, NULL, EXPORT_VALUE, U(tl->threads[thread].tid)) \
    X(kind, global_tid, NULL, "globalTid", NULL, EXPORT_VALUE, U(export_global_tid(x, thread)))

#define KERNEL_COLUMNS(X) \
    TIMES(X, kernel, kernels) \
    LANE(X, kernel, kernels, "context") \
    X(kernel, name, "name", "demangledName", NULL, EXPORT_NAME, S(export_kernel_name(x, i))) \
    X(kernel, short_name, "short_name", "shortName", NULL, EXPORT_NAME, S(short_name(x, i))) \
    X(kernel, mangled, NULL, "mangledName", NULL, EXPORT_NAME, TEXT(shape_of(tl, i)->name)) \
    X(kernel, category, "category", NULL, "category", EXPORT_ID, S(category_name(x, i))) \
    X(kernel, library, "library", NULL, "library", EXPORT_ID, S(library_name(x, i))) \
    X(kernel, stage, "stage", NULL, "stage", EXPORT_ID, S(stage_name(x, i))) \
    X(kernel, range, "range", NULL, NULL, EXPORT_VALUE, range_name(tl, tl->kernels.range[i])) \
    X(kernel, launch_type, NULL, "launchType", NULL, EXPORT_VALUE, U(1)) \
    X(kernel, grid, NULL, NULL, "grid", EXPORT_ID, column_dims(shape_of(tl, i)->grid)) \
    X(kernel, grid_x, "grid_x", "gridX", NULL, EXPORT_VALUE, U(shape_of(tl, i)->grid[0])) \
    X(kernel, grid_y, "grid_y", "gridY", NULL, EXPORT_VALUE, U(shape_of(tl, i)->grid[1])) \
    X(kernel, grid_z, "grid_z", "gridZ", NULL, EXPORT_VALUE, U(shape_of(tl, i)->grid[2])) \
    X(kernel, block, NULL, NULL, "block", EXPORT_ID, column_dims(shape_of(tl, i)->block)) \
    X(kernel, block_x, "block_x", "blockX", NULL, EXPORT_VALUE, U(shape_of(tl, i)->block[0])) \
    X(kernel, block_y, "block_y", "blockY", NULL, EXPORT_VALUE, U(shape_of(tl, i)->block[1])) \
    X(kernel, block_z, "block_z", "blockZ", NULL, EXPORT_VALUE, U(shape_of(tl, i)->block[2])) \
    X(kernel, registers, "registers", "registersPerThread", "registers per thread", EXPORT_VALUE, U(shape_of(tl, i)->registers)) \
    X(kernel, static_smem, "static_smem_bytes", "staticSharedMemory", NULL, EXPORT_VALUE, U(shape_of(tl, i)->static_smem_bytes)) \
    X(kernel, dynamic_smem, "dynamic_smem_bytes", "dynamicSharedMemory", NULL, EXPORT_VALUE, U(shape_of(tl, i)->dynamic_smem_bytes)) \
    X(kernel, smem, NULL, NULL, "shared memory", EXPORT_VALUE, U((uint64_t)shape_of(tl, i)->static_smem_bytes + shape_of(tl, i)->dynamic_smem_bytes)) \
    X(kernel, graph, "graph", "graphId", "graph id", EXPORT_ID, U(tl->kernels.graph ? tl->kernels.graph[i] : 0)) \
    X(kernel, graph_node, NULL, "graphNodeId", "graph node id", EXPORT_ID, U(tl->kernels.graph_node ? tl->kernels.graph_node[i] : 0))
#define COPY_COLUMNS(X) \
    TIMES(X, copy, copies) \
    LANE(X, copy, copies, NULL) \
    X(copy, kind, "kind", NULL, NULL, EXPORT_VALUE, S(export_copy_name(tl->copies.kind[i]))) \
    X(copy, bytes, "bytes", "bytes", "bytes", EXPORT_VALUE, U(tl->copies.bytes[i])) \
    X(copy, range, "range", NULL, NULL, EXPORT_VALUE, range_name(tl, tl->copies.range[i])) \
    X(copy, kind_number, NULL, "copyKind", NULL, EXPORT_VALUE, U(copy_kind(tl->copies.kind[i])))
#define LAUNCH_COLUMNS(X) \
    TIMES(X, launch, launches) \
    THREAD(X, launch, tl->launches.thread[i]) \
    X(launch, class, NULL, "eventClass", NULL, EXPORT_VALUE, U(export_is_driver_call(api_name(tl, i)))) \
    X(launch, correlation, "correlation", "correlationId", "correlation", EXPORT_VALUE, U(i + 1)) \
    X(launch, api, "api", NULL, NULL, EXPORT_VALUE, TEXT(tl->launches.api[i])) \
    X(launch, name, NULL, "nameId", NULL, EXPORT_NAME, S(api_name(tl, i))) \
    X(launch, result, NULL, "returnValue", NULL, EXPORT_VALUE, U(0)) \
    X(launch, kernels, "kernels", NULL, NULL, EXPORT_VALUE, U(tl->launches.kernels[i])) \
    X(launch, range, "range", NULL, NULL, EXPORT_VALUE, range_name(tl, tl->launches.range[i]))
#define RANGE_COLUMNS(X) \
    X(range, start, "start_ns", "start", NULL, EXPORT_TIME, U(tl->ranges.start_ns[i])) \
    X(range, end, "end_ns", NULL, NULL, EXPORT_VALUE, U(tl->ranges.end_ns[i])) \
    X(range, range_end, NULL, "end", NULL, EXPORT_TIME, tl->ranges.flags[i] & TRACE_RANGE_MARK ? NONE : U(tl->ranges.end_ns[i])) \
    X(range, duration, "duration_ns", NULL, NULL, EXPORT_VALUE, U(tl->ranges.end_ns[i] - tl->ranges.start_ns[i])) \
    THREAD(X, range, tl->ranges.thread[i]) \
    X(range, type, NULL, "eventType", NULL, EXPORT_VALUE, U(range_type(tl->ranges.flags[i]))) \
    X(range, category, "category", NULL, NULL, EXPORT_VALUE, S(trace_range_category_name(tl->ranges.category[i]))) \
    X(range, name, "name", "text", NULL, EXPORT_VALUE, TEXT(tl->ranges.name[i])) \
    X(range, nvtx_category, NULL, "category", NULL, EXPORT_VALUE, U(export_nvtx_category(tl->ranges.category[i]))) \
    X(range, domain, NULL, "domainId", NULL, EXPORT_VALUE, U(tl->ranges.domain[i])) \
    X(range, detail, "detail", NULL, "shapes", EXPORT_ID, TEXT(tl->ranges.detail[i])) \
    X(range, flops, NULL, NULL, "FLOPs", EXPORT_VALUE, F(tl->ranges.flops ? tl->ranges.flops[i] : NAN)) \
    X(range, bytes, NULL, NULL, "bytes", EXPORT_VALUE, F(tl->ranges.bytes ? tl->ranges.bytes[i] : NAN)) \
    X(range, payload, NULL, NULL, "payload", EXPORT_VALUE, F(tl->ranges.payload ? tl->ranges.payload[i] : NAN)) \
    X(range, stack, NULL, NULL, "stack", EXPORT_ID, TEXT(tl->ranges.stack[i])) \
    X(range, parent, "parent", NULL, NULL, EXPORT_VALUE, range_name(tl, tl->ranges.parent[i]))
#define SYNC_COLUMNS(X) \
    TIMES(X, sync, syncs) \
    X(sync, pid, "pid", NULL, NULL, EXPORT_VALUE, U(export_pid(x, tl->threads[tl->syncs.thread[i]].process))) \
    X(sync, tid, "tid", NULL, NULL, EXPORT_VALUE, U(tl->threads[tl->syncs.thread[i]].tid)) \
    X(sync, global_pid, NULL, "globalPid", NULL, EXPORT_VALUE, U(export_global_pid(x, tl->threads[tl->syncs.thread[i]].process))) \
    X(sync, kind, "kind", NULL, "cuda_sync_kind", EXPORT_VALUE, S(trace_sync_kind_name(tl->syncs.kind[i]))) \
    X(sync, kind_number, NULL, "syncType", NULL, EXPORT_VALUE, U(tl->syncs.kind[i])) \
    X(sync, context, NULL, "contextId", "context", EXPORT_VALUE, U(tl->syncs.context[i])) \
    X(sync, stream, NULL, "streamId", "stream", EXPORT_VALUE, U(tl->syncs.stream[i])) \
    X(sync, range, "range", NULL, NULL, EXPORT_VALUE, range_name(tl, tl->syncs.range[i]))
#define POWER_COLUMNS(X) \
    X(power, time, "time_ns", "timestamp", NULL, EXPORT_TIME, U(tl->powers.time_ns[i])) \
    X(power, device, "device", "deviceId", NULL, EXPORT_VALUE, U(export_device_number(x, tl->powers.device[i]))) \
    X(power, watts, "watts", NULL, NULL, EXPORT_VALUE, F(export_power_series[0].get(&tl->powers, i))) \
    X(power, milliwatts, NULL, "powerMilliwatts", NULL, EXPORT_VALUE, known(tl->powers.power_mw[i])) \
    X(power, energy, NULL, "energyMillijoules", NULL, EXPORT_ID, U(tl->powers.energy_mj[i])) \
    X(power, sm_mhz, "sm_mhz", "smClockMhz", NULL, EXPORT_VALUE, known(tl->powers.sm_mhz[i])) \
    X(power, memory_mhz, "memory_mhz", "memoryClockMhz", NULL, EXPORT_VALUE, known(tl->powers.memory_mhz[i])) \
    X(power, temperature, "temperature_c", "temperatureCelsius", NULL, EXPORT_VALUE, known(tl->powers.temperature_c[i])) \
    X(power, throttle, "throttle_reasons", "throttleReasons", NULL, EXPORT_VALUE, U(tl->powers.throttle_reasons[i]))
#define SAMPLE_COLUMNS(X) \
    X(sample, start, "start_ns", NULL, NULL, EXPORT_VALUE, U(tl->samples.start_ns[i])) \
    X(sample, end, "end_ns", "timestamp", NULL, EXPORT_TIME, U(tl->samples.end_ns[i])) \
    X(sample, duration, "duration_ns", NULL, NULL, EXPORT_VALUE, U(tl->samples.end_ns[i] - tl->samples.start_ns[i])) \
    X(sample, device, "device", NULL, NULL, EXPORT_VALUE, U(export_device_number(x, tl->samples.device[i]))) \
    X(sample, type, NULL, "typeId", NULL, EXPORT_VALUE, U(export_metric_type(tl->samples.set[i], export_device_number(x, tl->samples.device[i])))) \
    X(sample, metric, "metric", NULL, NULL, EXPORT_VALUE, TEXT(tl->metric_sets[tl->samples.set[i]].names[r->metric])) \
    X(sample, metric_id, NULL, "metricId", NULL, EXPORT_VALUE, U(r->metric)) \
    X(sample, value, "value", "value", NULL, EXPORT_REQUIRED, F((double)tl->sample_values[tl->samples.first[i] + r->metric]))
#define TOKEN_COLUMNS(X) \
    X(token, time, "time_ns", "timestamp", NULL, EXPORT_TIME, U(tl->tokens.time_ns[i])) \
    THREAD(X, token, tl->tokens.thread[i]) \
    X(token, request, "request", "request", NULL, EXPORT_VALUE, U(tl->tokens.request[i])) \
    X(token, kind, "kind", NULL, NULL, EXPORT_VALUE, S(trace_token_kind_name(tl->tokens.kind[i]))) \
    X(token, kind_number, NULL, "kind", NULL, EXPORT_VALUE, U(tl->tokens.kind[i])) \
    X(token, count, "count", "count", NULL, EXPORT_VALUE, U(tl->tokens.count[i]))
#define GEMM_COLUMNS(X) \
    X(gemm, start, "start_ns", "start", NULL, EXPORT_TIME, U(tl->gemms.v[i].start_ns)) \
    THREAD(X, gemm, tl->gemms.v[i].thread) \
    X(gemm, correlation, "correlation", "correlationId", NULL, EXPORT_ID, correlation_id(tl->gemms.launch[i])) \
    X(gemm, m, "m", "m", NULL, EXPORT_VALUE, U(tl->gemms.v[i].m)) \
    X(gemm, n, "n", "n", NULL, EXPORT_VALUE, U(tl->gemms.v[i].n)) \
    X(gemm, k, "k", "k", NULL, EXPORT_VALUE, U(tl->gemms.v[i].k)) \
    X(gemm, batch, "batch", "batch", NULL, EXPORT_VALUE, U(tl->gemms.v[i].batch)) \
    X(gemm, types, "types", "typesId", NULL, EXPORT_NAME, TEXT(tl->gemms.v[i].types)) \
    X(gemm, layout, "layout", "layoutId", NULL, EXPORT_NAME, TEXT(tl->gemms.v[i].layout)) \
    X(gemm, algorithm, "algorithm", "algorithmId", NULL, EXPORT_NAME, TEXT(tl->gemms.v[i].algorithm))
#define MEMORY_COLUMNS(X) \
    X(memory, time, "time_ns", NULL, NULL, EXPORT_TIME, U(tl->memories.time_ns[i])) \
    X(memory, device, "device", NULL, NULL, EXPORT_VALUE, tl->memories.device[i] == TIMELINE_NONE ? NONE : U(export_device_number(x, tl->memories.device[i]))) \
    X(memory, kind, "kind", NULL, NULL, EXPORT_VALUE, S(trace_memory_kind_name(tl->memories.kind[i]))) \
    X(memory, action, "action", NULL, NULL, EXPORT_VALUE, S(trace_memory_action_name(tl->memories.action[i]))) \
    X(memory, bytes, "bytes", NULL, NULL, EXPORT_VALUE, U(tl->memories.bytes[i])) \
    X(memory, address, "address", NULL, NULL, EXPORT_VALUE, U(tl->memories.address[i]))
#define COLLECTIVE_COLUMNS(X) \
    X(collective, start, "start_ns", NULL, NULL, EXPORT_TIME, U(tl->collectives.start_ns[i])) \
    X(collective, end, "end_ns", NULL, NULL, EXPORT_VALUE, U(tl->collectives.end_ns[i])) \
    X(collective, kernel_start, "kernel_start_ns", NULL, NULL, EXPORT_VALUE, kernel_time(tl, i, tl->collectives.v[i].kernel_start_ns)) \
    X(collective, kernel_end, "kernel_end_ns", NULL, NULL, EXPORT_VALUE, kernel_time(tl, i, tl->collectives.v[i].kernel_end_ns)) \
    X(collective, pid, "pid", NULL, NULL, EXPORT_VALUE, U(export_pid(x, tl->collectives.process[i]))) \
    X(collective, process_rank, "process_rank", NULL, NULL, EXPORT_VALUE, known(tl->processes[tl->collectives.process[i]].rank)) \
    X(collective, op, "op", NULL, NULL, EXPORT_VALUE, S(trace_collective_op_name(tl->collectives.v[i].op))) \
    X(collective, communicator, "communicator", NULL, NULL, EXPORT_VALUE, known_u64(tl->collectives.v[i].communicator)) \
    X(collective, communicator_name, "communicator_name", NULL, NULL, EXPORT_VALUE, TEXT(tl->collectives.v[i].communicator_name)) \
    X(collective, sequence, "sequence", NULL, NULL, EXPORT_VALUE, known_u64(tl->collectives.v[i].sequence)) \
    X(collective, rank, "rank", NULL, NULL, EXPORT_VALUE, known(tl->collectives.v[i].rank)) \
    X(collective, size, "size", NULL, NULL, EXPORT_VALUE, known(tl->collectives.v[i].size)) \
    X(collective, root, "root", NULL, NULL, EXPORT_VALUE, known(tl->collectives.v[i].root)) \
    X(collective, peer, "peer", NULL, NULL, EXPORT_VALUE, known(tl->collectives.v[i].peer)) \
    X(collective, bytes, "bytes", NULL, NULL, EXPORT_VALUE, known_u64(tl->collectives.v[i].bytes)) \
    X(collective, count, "count", NULL, NULL, EXPORT_VALUE, known_u64(tl->collectives.v[i].count)) \
    X(collective, data_type, "data_type", NULL, NULL, EXPORT_VALUE, TEXT(tl->collectives.v[i].data_type)) \
    X(collective, algorithm, "algorithm", NULL, NULL, EXPORT_VALUE, TEXT(tl->collectives.v[i].algorithm)) \
    X(collective, protocol, "protocol", NULL, NULL, EXPORT_VALUE, TEXT(tl->collectives.v[i].protocol)) \
    X(collective, channels, "channels", NULL, NULL, EXPORT_VALUE, known(tl->collectives.v[i].channels))
#define DEVICE_COLUMNS(X) \
    X(device, id, NULL, "id", "id", EXPORT_VALUE, U(export_device_number(x, (uint32_t)i))) \
    X(device, name, NULL, "name", "name", EXPORT_VALUE, TEXT(tl->devices[i].name)) \
    X(device, uuid, NULL, "uuid", "uuid", EXPORT_ID, TEXT(tl->devices[i].uuid)) \
    X(device, major, NULL, "computeMajor", "computeMajor", EXPORT_ID, U(tl->devices[i].cc_major)) \
    X(device, minor, NULL, "computeMinor", "computeMinor", EXPORT_VALUE, tl->devices[i].cc_major ? U(tl->devices[i].cc_minor) : NONE) \
    X(device, sms, NULL, "smCount", "numSms", EXPORT_ID, U(tl->devices[i].sms)) \
    X(device, threads, NULL, NULL, "maxThreadsPerMultiprocessor", EXPORT_ID, U(tl->devices[i].max_threads_per_sm)) \
    X(device, warps, NULL, "maxWarpsPerSm", NULL, EXPORT_ID, U(max_warps(&tl->devices[i]))) \
    X(device, blocks, NULL, "maxBlocksPerSm", NULL, EXPORT_ID, U(tl->devices[i].max_blocks_per_sm)) \
    X(device, registers, NULL, "maxRegistersPerSm", "regsPerMultiprocessor", EXPORT_ID, U(tl->devices[i].regs_per_sm)) \
    X(device, smem, NULL, "maxShmemPerSm", "sharedMemPerMultiprocessor", EXPORT_ID, U(tl->devices[i].smem_per_sm_bytes)) \
    X(device, warp, NULL, "threadsPerWarp", "warpSize", EXPORT_ID, U(tl->devices[i].warp_size)) \
    X(device, memory, NULL, "totalMemory", "totalGlobalMem", EXPORT_ID, U(tl->devices[i].memory_bytes)) \
    X(device, bandwidth, NULL, "memoryBandwidth", NULL, EXPORT_ID, U(bandwidth(tl->devices[i].peak_bytes_per_s))) \
    X(device, clock, NULL, "clockRate", NULL, EXPORT_ID, U(tl->devices[i].sm_clock_khz * 1000)) \
    X(device, l2, NULL, "l2CacheSize", NULL, EXPORT_ID, U(tl->devices[i].l2_bytes)) \
    X(device, number, NULL, "cuDevice", NULL, EXPORT_VALUE, U(export_device_number(x, (uint32_t)i)))
/* clang-format on */

#define GETTER(kind, id, csv, sql, chrome, use, value)                         \
    static struct column_value get_##kind##_##id(const struct export_row *r) { \
        const struct export_job *x = r->x;                                     \
        const struct timeline *tl = x->tl;                                     \
        size_t i = r->i;                                                       \
        (void)tl;                                                              \
        (void)i;                                                               \
        return value;                                                          \
    }
#define COLUMN(kind, id, csv, sql, argument, use, value) { csv, sql, argument, use, get_##kind##_##id },
#define DEFINE(KIND, columns) \
    KIND##_COLUMNS(GETTER) static const struct export_column columns[] = { KIND##_COLUMNS(COLUMN) };
DEFINE(KERNEL, kernel_columns)
DEFINE(COPY, copy_columns)
DEFINE(LAUNCH, launch_columns)
DEFINE(RANGE, range_columns)
DEFINE(SYNC, sync_columns)
DEFINE(POWER, power_columns)
DEFINE(SAMPLE, sample_columns)
DEFINE(TOKEN, token_columns)
DEFINE(GEMM, gemm_columns)
DEFINE(MEMORY, memory_columns)
DEFINE(COLLECTIVE, collective_columns)
DEFINE(DEVICE, device_columns)

/* ---- tables */

#define WITHIN(name, from, to) \
    static bool name(const struct export_job *x, size_t i) { return export_has(x, x->tl->from, x->tl->to); }
WITHIN(has_kernel, kernels.start_ns[i], kernels.end_ns[i])
WITHIN(has_copy, copies.start_ns[i], copies.end_ns[i])
WITHIN(has_range, ranges.start_ns[i], ranges.end_ns[i])
WITHIN(has_sync, syncs.start_ns[i], syncs.end_ns[i])
WITHIN(has_power, powers.time_ns[i], powers.time_ns[i])
WITHIN(has_sample, samples.start_ns[i], samples.end_ns[i])
WITHIN(has_token, tokens.time_ns[i], tokens.time_ns[i])
WITHIN(has_gemm, gemms.v[i].start_ns, gemms.v[i].start_ns)
WITHIN(has_collective, collectives.start_ns[i], collectives.end_ns[i])
WITHIN(has_memory, memories.time_ns[i], memories.time_ns[i])
static bool has_memset(const struct export_job *x, size_t i) {
    return x->tl->copies.kind[i] == TRACE_COPY_MEMSET && has_copy(x, i);
}
static bool has_memcpy(const struct export_job *x, size_t i) {
    return x->tl->copies.kind[i] != TRACE_COPY_MEMSET && has_copy(x, i);
}
static bool has_device(const struct export_job *x, size_t i) { return i < x->tl->ndevices; }
/* one row per metric */
static uint32_t sample_rows(const struct export_job *x, size_t i) {
    return x->tl->metric_sets[x->tl->samples.set[i]].n;
}

#define TABLE(csv_, sql_, columns_, count_, has_)                              \
    {                                                                          \
        .csv = csv_, .sql = sql_, .columns = columns_, .n = COUNTOF(columns_), \
        .count = offsetof(struct timeline, count_), .has = has_,               \
    }
#define KERNELS TABLE("kernels.csv", "CUPTI_ACTIVITY_KIND_KERNEL", kernel_columns, kernels.n, has_kernel)
#define COPIES TABLE("copies.csv", NULL, copy_columns, copies.n, has_copy)
#define LAUNCHES \
    TABLE("launches.csv", "CUPTI_ACTIVITY_KIND_RUNTIME", launch_columns, launches.n, export_has_launch)
#define RANGES TABLE("ranges.csv", "NVTX_EVENTS", range_columns, ranges.n, has_range)
#define SYNCS TABLE("syncs.csv", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", sync_columns, syncs.n, has_sync)
#define DEVICES TABLE(NULL, "TARGET_INFO_GPU", device_columns, ndevices, has_device)

const struct export_table export_kernels = KERNELS, export_copies = COPIES, export_launches = LAUNCHES,
                          export_ranges = RANGES, export_syncs = SYNCS, export_devices = DEVICES;
const struct export_table export_tables[] = {
    DEVICES,
    KERNELS,
    COPIES,
    TABLE(NULL, "CUPTI_ACTIVITY_KIND_MEMCPY", copy_columns, copies.n, has_memcpy),
    /* without the last column, copyKind */
    { .sql = "CUPTI_ACTIVITY_KIND_MEMSET",
      .columns = copy_columns,
      .n = COUNTOF(copy_columns) - 1,
      .count = offsetof(struct timeline, copies.n),
      .has = has_memset },
    LAUNCHES,
    SYNCS,
    RANGES,
    { .csv = "counters.csv",
      .sql = "GPU_METRICS",
      .columns = sample_columns,
      .n = COUNTOF(sample_columns),
      .count = offsetof(struct timeline, samples.n),
      .has = has_sample,
      .rows = sample_rows },
    TABLE("power.csv", "INFERPROF_POWER", power_columns, powers.n, has_power),
    TABLE("tokens.csv", "INFERPROF_TOKENS", token_columns, tokens.n, has_token),
    TABLE("gemms.csv", "INFERPROF_GEMMS", gemm_columns, gemms.n, has_gemm),
    TABLE("collectives.csv", NULL, collective_columns, collectives.n, has_collective),
    TABLE("memory.csv", NULL, memory_columns, memories.n, has_memory),
};
const size_t export_ntables = COUNTOF(export_tables);

/* ---- counters of power samples */

static double power_watts(const struct timeline_powers *p, size_t i) {
    return p->power_mw[i] == TRACE_UNKNOWN_U32 ? NAN : p->power_mw[i] * 1e-3;
}
static double power_clock(const struct timeline_powers *p, size_t i) {
    return p->sm_mhz[i] == TRACE_UNKNOWN_U32 ? NAN : (double)p->sm_mhz[i];
}
const struct export_series export_power_series[2] = {
    { "Power", "W", power_watts },
    { "SM clock", "MHz", power_clock },
};
