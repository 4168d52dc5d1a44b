#include "import/nsys.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "base/vec.h"
#include "import/nsys_internal.h"

#define STRING_BYTES_MAX (1u << 30)

/* ---- Helpers for all tables */

/* Returns false, for rows that are left out. */
static bool count_problem(struct nsys *n, enum sink_problem problem) {
    n->sink->problems[problem]++;
    return false;
}

bool nsys_interval(struct nsys *n, const struct nsys_rows *r, int start, int end, uint64_t *start_ns,
                   uint64_t *end_ns) {
    int64_t from, to;
    if (nsys_null(r, start)) return count_problem(n, SINK_PROBLEM_NO_TIME);
    if (nsys_null(r, end)) return count_problem(n, SINK_PROBLEM_NO_DURATION);
    if (__builtin_add_overflow(nsys_i64(r, start, 0), n->epoch_ns, &from) ||
        __builtin_add_overflow(nsys_i64(r, end, 0), n->epoch_ns, &to) || from < 0)
        return count_problem(n, SINK_PROBLEM_BAD_NUMBER);
    if (to < from) return count_problem(n, SINK_PROBLEM_NEGATIVE_DURATION);
    *start_ns = (uint64_t)from;
    *end_ns = (uint64_t)to;
    return true;
}

static int by_id(const void *pa, const void *pb) {
    const struct nsys_string *a = pa, *b = pb;
    return (a->id > b->id) - (a->id < b->id);
}

const char *nsys_string(const struct nsys *n, int64_t id, size_t *len) {
    struct nsys_string key = { .id = id };
    const struct nsys_string *hit =
        n->strings.n ? bsearch(&key, n->strings.v, n->strings.n, sizeof key, by_id) : NULL;
    if (!hit) return NULL;
    *len = hit->len;
    return n->text.v + hit->offset;
}

uint32_t nsys_string_text(struct nsys *n, int64_t id) {
    size_t len;
    const char *text = nsys_string(n, id, &len);
    return text ? sink_text(n->sink, text, len) : NSYS_UNKNOWN_TEXT;
}

void nsys_end(struct nsys *n, struct nsys_rows *r) {
    if (!nsys_rows_close(r)) n->sink->problems[SINK_PROBLEM_DAMAGED]++;
}

/* ---- Referenced tables */

static void read_strings(struct nsys *n) {
    static const char *const columns[] = { "id", "value", NULL };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, "StringIds", columns, NULL))
        while (nsys_rows_next(&r)) {
            size_t len;
            const char *text = nsys_text(&r, 1, &len);
            if (!text || n->text.n + len > STRING_BYTES_MAX) continue;
            vec_push(&n->strings, ((struct nsys_string){ nsys_i64(&r, 0, 0), n->text.n, len }));
            vec_reserve(&n->text, n->text.n + len + 1);
            memcpy(n->text.v + n->text.n, text, len);
            n->text.n += len;
        }
    nsys_end(n, &r);
    if (n->strings.n) qsort(n->strings.v, n->strings.n, sizeof *n->strings.v, by_id);
}

static void read_epoch(struct nsys *n) {
    static const char *const columns[] = { "utcEpochNs", NULL };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, "TARGET_INFO_SESSION_START_TIME", columns, NULL) && nsys_rows_next(&r))
        n->epoch_ns = nsys_i64(&r, 0, 0) > 0 ? nsys_i64(&r, 0, 0) : 0;
    nsys_end(n, &r);
    sink_meta(n->sink, "clock", "%s", n->epoch_ns ? "unix" : "relative");
}

static uint32_t device_of(const struct nsys *n, uint64_t global_pid, uint64_t cuda_id) {
    uint64_t pid = global_pid >> 24 & 0xffffff;
    for (size_t i = 0; i < n->devices.n; i++)
        if (n->devices.v[i].pid == pid && n->devices.v[i].cuda_id == cuda_id)
            return sink_u32(n->devices.v[i].gpu_id);
    return sink_u32(cuda_id);
}

static void read_devices(struct nsys *n) {
    static const char *const columns[] = { "gpuId", "cudaId", "pid", NULL };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, "TARGET_INFO_CUDA_DEVICE", columns, NULL))
        while (nsys_rows_next(&r) && n->devices.n < 4096)
            vec_push(&n->devices,
                     ((struct nsys_device){ nsys_u64(&r, 2, 0), nsys_u64(&r, 1, 0), nsys_u64(&r, 0, 0) }));
    nsys_end(n, &r);
}

/* ---- Device work */

static uint32_t kernel_name(struct nsys *n, const struct nsys_rows *r, const int *columns, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t text = nsys_null(r, columns[i]) ? 0 : nsys_string_text(n, nsys_i64(r, columns[i], -1));
        if (text) return text;
    }
    return NSYS_UNKNOWN_TEXT;
}

static void read_kernels(struct nsys *n) {
    enum {
        START,
        END,
        DEVICE,
        CONTEXT,
        STREAM,
        CORRELATION,
        PID,
        DEMANGLED,
        SHORT,
        MANGLED,
        REGISTERS,
        GX,
        GY,
        GZ,
        BX,
        BY,
        BZ,
        STATIC,
        DYNAMIC,
        NODE,
        GRAPH
    };
    static const char *const columns[] = { "start",
                                           "end",
                                           "deviceId",
                                           "contextId",
                                           "streamId",
                                           "correlationId",
                                           "globalPid",
                                           "demangledName",
                                           "shortName",
                                           "mangledName",
                                           "registersPerThread",
                                           "gridX",
                                           "gridY",
                                           "gridZ",
                                           "blockX",
                                           "blockY",
                                           "blockZ",
                                           "staticSharedMemory",
                                           "dynamicSharedMemory",
                                           "graphNodeId",
                                           "graphId",
                                           NULL };
    static const int names[] = { DEMANGLED, SHORT, MANGLED };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, "CUPTI_ACTIVITY_KIND_KERNEL", columns, NULL))
        while (nsys_rows_next(&r)) {
            struct trace_kernel k = { 0 };
            if (!nsys_interval(n, &r, START, END, &k.start_ns, &k.end_ns)) continue;
            uint64_t pid = nsys_u64(&r, PID, NSYS_NO_PROCESS);
            k.correlation = nsys_correlation(n, pid, nsys_u64(&r, CORRELATION, 0));
            k.graph_node = nsys_u64(&r, NODE, 0);
            k.graph = sink_u32(nsys_u64(&r, GRAPH, 0));
            k.device = device_of(n, pid, nsys_u64(&r, DEVICE, 0));
            k.context = nsys_context(n, pid, nsys_u64(&r, CONTEXT, 0));
            k.stream = sink_u32(nsys_u64(&r, STREAM, 0));
            k.name = kernel_name(n, &r, names, COUNTOF(names));
            k.grid_x = sink_u32(nsys_u64(&r, GX, 0));
            k.grid_y = sink_u32(nsys_u64(&r, GY, 0));
            k.grid_z = sink_u32(nsys_u64(&r, GZ, 0));
            k.block_x = sink_u32(nsys_u64(&r, BX, 0));
            k.block_y = sink_u32(nsys_u64(&r, BY, 0));
            k.block_z = sink_u32(nsys_u64(&r, BZ, 0));
            k.registers = sink_u32(nsys_u64(&r, REGISTERS, 0));
            k.static_smem_bytes = sink_u32(nsys_u64(&r, STATIC, 0));
            k.dynamic_smem_bytes = sink_u32(nsys_u64(&r, DYNAMIC, 0));
            n->sink->problems[SINK_PROBLEM_NO_CORRELATION] += !k.correlation;
            n->sink->events[SINK_EVENT_KERNEL]++;
            sink_kernel(n->sink, &k);
        }
    nsys_end(n, &r);
}

/* Graphs that were traced as a whole (--cuda-graph-trace=graph): one row per launch, without its kernels. */
static void read_graphs(struct nsys *n) {
    enum { START, END, DEVICE, CONTEXT, STREAM, CORRELATION, PID, GRAPH };
    static const char *const columns[] = { "start",         "end",       "deviceId", "contextId", "streamId",
                                           "correlationId", "globalPid", "graphId",  NULL };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", columns, NULL))
        while (nsys_rows_next(&r)) {
            struct trace_kernel k = { 0 };
            if (!nsys_interval(n, &r, START, END, &k.start_ns, &k.end_ns)) continue;
            uint64_t pid = nsys_u64(&r, PID, NSYS_NO_PROCESS);
            k.correlation = nsys_correlation(n, pid, nsys_u64(&r, CORRELATION, 0));
            k.graph = sink_u32(nsys_u64(&r, GRAPH, 0));
            k.device = device_of(n, pid, nsys_u64(&r, DEVICE, 0));
            k.context = nsys_context(n, pid, nsys_u64(&r, CONTEXT, 0));
            k.stream = sink_u32(nsys_u64(&r, STREAM, 0));
            char name[48];
            int len = snprintf(name, sizeof name, "CUDA graph %u", k.graph);
            k.name = sink_text(n->sink, name, (size_t)len);
            n->sink->events[SINK_EVENT_KERNEL]++;
            sink_kernel(n->sink, &k);
        }
    nsys_end(n, &r);
}

/* ENUM_CUDA_MEMCPY_OPER is CUpti_ActivityMemcpyKind, whose values are the same in all versions. */
static enum trace_copy_kind copy_kind(int64_t kind) {
    static const enum trace_copy_kind kinds[] = {
        [1] = TRACE_COPY_HTOD,  [2] = TRACE_COPY_DTOH,  [3] = TRACE_COPY_HTOD,  [4] = TRACE_COPY_DTOH,
        [5] = TRACE_COPY_DTOD,  [6] = TRACE_COPY_DTOD,  [7] = TRACE_COPY_DTOD,  [8] = TRACE_COPY_DTOD,
        [9] = TRACE_COPY_HTOH,  [10] = TRACE_COPY_PTOP, [11] = TRACE_COPY_HTOD, [12] = TRACE_COPY_DTOH,
        [13] = TRACE_COPY_DTOD,
    };
    return kind > 0 && kind < (int64_t)COUNTOF(kinds) ? kinds[kind] : TRACE_COPY_UNKNOWN;
}

static void read_copies(struct nsys *n, const char *table, bool memsets) {
    enum { START, END, DEVICE, CONTEXT, STREAM, CORRELATION, PID, BYTES, KIND, NODE, GRAPH };
    static const char *const columns[] = { "start",    "end",           "deviceId",  "contextId",
                                           "streamId", "correlationId", "globalPid", "bytes",
                                           "copyKind", "graphNodeId",   "graphId",   NULL };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, table, columns, NULL))
        while (nsys_rows_next(&r)) {
            struct trace_copy c = { 0 };
            if (!nsys_interval(n, &r, START, END, &c.start_ns, &c.end_ns)) continue;
            uint64_t pid = nsys_u64(&r, PID, NSYS_NO_PROCESS);
            c.correlation = nsys_correlation(n, pid, nsys_u64(&r, CORRELATION, 0));
            c.graph_node = nsys_u64(&r, NODE, 0);
            c.bytes = nsys_u64(&r, BYTES, 0);
            c.graph = sink_u32(nsys_u64(&r, GRAPH, 0));
            c.device = device_of(n, pid, nsys_u64(&r, DEVICE, 0));
            c.context = nsys_context(n, pid, nsys_u64(&r, CONTEXT, 0));
            c.stream = sink_u32(nsys_u64(&r, STREAM, 0));
            c.copy_kind = memsets ? TRACE_COPY_MEMSET : copy_kind(nsys_i64(&r, KIND, 0));
            n->sink->events[memsets ? SINK_EVENT_MEMSET : SINK_EVENT_MEMCPY]++;
            sink_copy(n->sink, &c);
        }
    nsys_end(n, &r);
}

/* ---- Host calls */

/* "cudaLaunchKernel_v7000" -> length of "cudaLaunchKernel" */
static size_t without_version(const char *name, size_t len) {
    size_t at = len;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') at--;
    return at < len && at > 2 && name[at - 1] == 'v' && name[at - 2] == '_' ? at - 2 : len;
}

/* Some versions list a call twice, under two event classes. Rows are sorted by correlation id to find these
 * duplicates. */
static void read_calls(struct nsys *n) {
    enum { START, END, TID, CORRELATION, NAME };
    static const char *const columns[] = { "start", "end", "globalTid", "correlationId", "nameId", NULL };
    static const char *const order[] = { "correlationId", "globalTid", "eventClass", NULL };
    struct nsys_rows r;
    uint64_t last_tid = 0, last_correlation = 0;
    if (nsys_rows_open(&r, n->db, "CUPTI_ACTIVITY_KIND_RUNTIME", columns, order))
        while (nsys_rows_next(&r)) {
            struct trace_launch l = { 0 };
            uint64_t tid = nsys_u64(&r, TID, NSYS_NO_PROCESS), correlation = nsys_u64(&r, CORRELATION, 0);
            if (correlation && correlation == last_correlation && tid == last_tid) {
                n->sink->problems[SINK_PROBLEM_DUPLICATE]++;
                continue;
            }
            last_tid = tid;
            last_correlation = correlation;
            if (!nsys_interval(n, &r, START, END, &l.start_ns, &l.end_ns)) continue;
            size_t len = 0;
            const char *name = nsys_string(n, nsys_i64(&r, NAME, -1), &len);
            l.correlation = nsys_correlation(n, tid, correlation);
            l.thread = nsys_thread(n, tid);
            l.api = name ? sink_text(n->sink, name, without_version(name, len)) : NSYS_UNKNOWN_TEXT;
            bool driver =
                len > 2 && name[0] == 'c' && name[1] == 'u' && !(len > 4 && memcmp(name, "cuda", 4) == 0);
            n->sink->events[driver ? SINK_EVENT_DRIVER : SINK_EVENT_RUNTIME]++;
            sink_launch(n->sink, &l);
        }
    nsys_end(n, &r);
}

/* syncType is CUpti_ActivitySynchronizationType, which has the values of enum trace_sync_kind. */
static void read_syncs(struct nsys *n) {
    enum { START, END, CORRELATION, PID, TYPE, CONTEXT, STREAM };
    static const char *const columns[] = { "start",    "end",       "correlationId", "globalPid",
                                           "syncType", "contextId", "streamId",      NULL };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", columns, NULL))
        while (nsys_rows_next(&r)) {
            struct trace_sync s = { 0 };
            if (!nsys_interval(n, &r, START, END, &s.start_ns, &s.end_ns)) continue;
            uint64_t kind = nsys_u64(&r, TYPE, 0), pid = nsys_u64(&r, PID, NSYS_NO_PROCESS);
            s.correlation = nsys_correlation(n, pid, nsys_u64(&r, CORRELATION, 0));
            s.thread = nsys_thread(n, pid); /* thread 0 of its process: unknown */
            s.sync_kind = kind < TRACE_SYNC_KIND_END ? (uint32_t)kind : TRACE_SYNC_UNKNOWN;
            s.context = nsys_context(n, pid, nsys_u64(&r, CONTEXT, 0));
            s.stream = sink_u32(nsys_u64(&r, STREAM, 0));
            n->sink->events[SINK_EVENT_SYNC]++;
            sink_sync(n->sink, &s);
        }
    nsys_end(n, &r);
}

static void count_rows(struct nsys *n, const char *table, enum sink_event event) {
    static const char *const columns[] = { "correlationId", "start", NULL };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, table, columns, NULL))
        while (nsys_rows_next(&r)) n->sink->events[event]++;
    nsys_end(n, &r);
}

/* ---- File */

static bool is_nsys(sqlite3 *db) {
    static const char *const any[] = { "CUPTI_ACTIVITY_KIND_KERNEL",
                                       "CUPTI_ACTIVITY_KIND_RUNTIME",
                                       "NVTX_EVENTS",
                                       "TARGET_INFO_SESSION_START_TIME",
                                       "META_DATA_EXPORT",
                                       "EXPORT_META_DATA",
                                       "CUPTI_ACTIVITY_KIND_MEMCPY" };
    for (size_t i = 0; i < COUNTOF(any); i++)
        if (nsys_table_exists(db, any[i])) return true;
    return false;
}

/* Reads the list of tables, to detect damage in it. */
static int check_schema(sqlite3 *db, const char *name, struct err *err) {
    sqlite3_stmt *s = NULL;
    bool ok = sqlite3_prepare_v2(db, "SELECT count(*) FROM sqlite_master", -1, &s, NULL) == SQLITE_OK &&
              sqlite3_step(s) == SQLITE_ROW;
    if (!ok) err_set(err, "%s: the SQLite file is damaged: %s", name, sqlite3_errmsg(db));
    sqlite3_finalize(s);
    if (!ok) return -1;
    if (is_nsys(db)) return 0;
    return err_set(err,
                   "%s: a SQLite file, but not from `nsys export --type sqlite`: it contains none of its "
                   "tables (views and virtual tables are ignored)",
                   name);
}

static void read_tables(struct nsys *n) {
    read_strings(n);
    read_epoch(n);
    read_devices(n);
    nsys_read_gpus(n);
    nsys_find_owners(n);
    read_calls(n);
    read_kernels(n);
    read_graphs(n);
    read_copies(n, "CUPTI_ACTIVITY_KIND_MEMCPY", false);
    read_copies(n, "CUPTI_ACTIVITY_KIND_MEMSET", true);
    read_syncs(n);
    nsys_read_nvtx(n);
    nsys_read_metrics(n);
    nsys_read_own(n);
    nsys_write_processes(n);
    count_rows(n, "CUPTI_ACTIVITY_KIND_CUDA_EVENT", SINK_EVENT_CUDA_EVENT);
    count_rows(n, "PROFILER_OVERHEAD", SINK_EVENT_OVERHEAD);
}

int nsys_import_db(sqlite3 *db, const char *name, struct sink *sink, struct err *err) {
    struct nsys n = { .db = db, .sink = sink };
    struct nsys_limit limit;
    nsys_limit_start(&limit, db);
    int rc = check_schema(db, name, err);
    if (rc == 0) read_tables(&n);
    nsys_limit_end(db);
    if (limit.exceeded)
        rc = err_set(
            err, "%s: reading takes more steps than a file of this size needs: it is damaged or malicious",
            name);
    free(n.strings.v);
    free(n.text.v);
    free(n.processes.v);
    free(n.contexts.v);
    free(n.devices.v);
    return rc;
}

int nsys_import(const char *path, const char *name, struct sink *sink, struct err *err) {
    sqlite3 *db = NULL;
    int rc = -1;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        err_set(err, "%s: %s", name, db ? sqlite3_errmsg(db) : "out of memory while opening it");
    else
        rc = nsys_import_db(db, name, sink, err);
    sqlite3_close(db);
    return rc;
}
