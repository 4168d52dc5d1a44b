/* An SQLite database with the tables and columns of an Nsight Systems export, so that scripts for such
 * exports work. Times are ns since TARGET_INFO_SESSION_START_TIME; a thread is (process << 24 | thread).
 * Data without a table in Nsight Systems is in additional tables named INFERPROF_*. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/intern.h"
#include "base/scratch.h"
#include "base/util.h"
#include "report/export.h"

static const char schema[] =
    "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
    "CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);"
    "CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);"
    "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);"
    "CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);"
    "CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, busLocation TEXT, isDiscrete "
    "INTEGER, l2CacheSize INTEGER,"
    " totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, pwGpuId INTEGER, "
    "uuid TEXT, luid INTEGER,"
    " chipName TEXT, cuDevice INTEGER, maxShmemPerSm INTEGER, maxRegistersPerSm INTEGER, threadsPerWarp "
    "INTEGER,"
    " maxWarpsPerSm INTEGER, maxBlocksPerSm INTEGER, computeMajor INTEGER, computeMinor INTEGER);"
    "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT, "
    "numMultiprocessors INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER "
    "NOT NULL,"
    " contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
    "globalPid INTEGER,"
    " demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, "
    "cacheConfig INTEGER,"
    " registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT "
    "NULL,"
    " blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER "
    "NOT NULL,"
    " dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER, localMemoryTotal INTEGER, gridId "
    "INTEGER,"
    " sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER, graphId INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER "
    "NOT NULL,"
    " contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
    "globalPid INTEGER,"
    " bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER, graphNodeId "
    "INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER "
    "NOT NULL,"
    " contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
    "globalPid INTEGER,"
    " value INTEGER, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass "
    "INTEGER NOT NULL,"
    " globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, "
    "callchainId INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "deviceId INTEGER,"
    " contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
    "globalPid INTEGER,"
    " syncType INTEGER NOT NULL, eventId INTEGER);"
    "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId "
    "INTEGER, category INTEGER,"
    " color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, "
    "uint64Value INTEGER,"
    " int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, "
    "jsonTextId INTEGER,"
    " jsonText TEXT, binaryData TEXT);"
    "CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, typeName TEXT "
    "NOT NULL,"
    " metricId INTEGER NOT NULL, metricName TEXT NOT NULL);"
    "CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL, value "
    "INTEGER NOT NULL);"
    "CREATE TABLE INFERPROF_POWER (timestamp INTEGER NOT NULL, deviceId INTEGER NOT NULL, powerMilliwatts "
    "INTEGER,"
    " energyMillijoules INTEGER, smClockMhz INTEGER, memoryClockMhz INTEGER, temperatureCelsius INTEGER, "
    "throttleReasons INTEGER);"
    "CREATE TABLE INFERPROF_TOKENS (timestamp INTEGER NOT NULL, globalTid INTEGER, request INTEGER, count "
    "INTEGER NOT NULL,"
    " kind INTEGER NOT NULL);"
    "CREATE TABLE INFERPROF_GEMMS (start INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, m "
    "INTEGER, n INTEGER,"
    " k INTEGER, batch INTEGER, typesId INTEGER, layoutId INTEGER, algorithmId INTEGER);";

enum { NVTX_MARK = 34, NVTX_PUSH_POP = 59, NVTX_START_END = 60, NVTX_DOMAIN = 75 };

struct database {
    struct export_job *x;
    sqlite3 *db;
    sqlite3_stmt *insert;
    struct intern *strings;
    uint64_t base;
    int at; /* next parameter */
    bool failed;
};

static void prepare(struct database *d, const char *sql) {
    sqlite3_finalize(d->insert);
    d->insert = NULL;
    d->failed |= d->failed || sqlite3_prepare_v2(d->db, sql, -1, &d->insert, NULL) != SQLITE_OK;
    d->at = 1;
}
static void num(struct database *d, uint64_t v) {
    if (!d->failed) sqlite3_bind_int64(d->insert, d->at++, (sqlite3_int64)v);
}
static void real(struct database *d, double v) {
    if (!d->failed) sqlite3_bind_double(d->insert, d->at++, v);
}
static void null(struct database *d) {
    if (!d->failed) sqlite3_bind_null(d->insert, d->at++);
}
static void num_or_null(struct database *d, uint64_t v) {
    if (v)
        num(d, v);
    else
        null(d);
}
static void str(struct database *d, const char *s) {
    if (!d->failed) sqlite3_bind_text(d->insert, d->at++, s, -1, SQLITE_TRANSIENT);
}
static void name(struct database *d, const char *s) { num(d, (uint64_t)intern_str(d->strings, s) + 1); }
static void row(struct database *d) {
    if (d->failed) return;
    d->failed = sqlite3_step(d->insert) != SQLITE_DONE;
    sqlite3_reset(d->insert);
    d->at = 1;
    d->x->written++;
}

static uint64_t global_pid(struct database *d, uint32_t process) {
    return (uint64_t)(export_pid(d->x, process) & 0xffffff) << 24;
}
static uint64_t global_tid(struct database *d, uint32_t thread) {
    const struct timeline_thread *t = &d->x->tl->threads[thread];
    return global_pid(d, t->process) | (t->tid & 0xffffff);
}

static void device_work(struct database *d, uint64_t start, uint64_t end, uint32_t lane_id, uint32_t launch) {
    const struct timeline_lane *l = &d->x->tl->lanes[lane_id];
    num(d, start - d->base);
    num(d, end - d->base);
    num(d, l->device);
    num(d, l->context);
    num(d, 0);
    num(d, l->stream);
    num_or_null(d, launch == TIMELINE_NONE ? 0 : (uint64_t)launch + 1);
    num(d, global_pid(d, l->process));
}

static void kernels(struct database *d) {
    const struct timeline *tl = d->x->tl;
    const struct timeline_kernels *k = &tl->kernels;
    prepare(d, "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
               "(start,end,deviceId,contextId,greenContextId,streamId,correlationId,"
               "globalPid,demangledName,shortName,mangledName,launchType,registersPerThread,gridX,gridY,"
               "gridZ,blockX,blockY,blockZ,"
               "staticSharedMemory,dynamicSharedMemory,graphNodeId,graphId) VALUES "
               "(?,?,?,?,?,?,?,?,?,?,?,1,?,?,?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < k->n && !d->failed; i++) {
        if (!export_has(d->x, k->start_ns[i], k->end_ns[i])) continue;
        const struct timeline_shape *s = &tl->shapes[k->shape[i]];
        const struct analysis *a = d->x->a;
        device_work(d, k->start_ns[i], k->end_ns[i], k->lane[i], k->launch[i]);
        name(d, export_kernel_name(d->x, i));
        name(d, a && a->shape_kernel ? a->kernels[a->shape_kernel[k->shape[i]]].short_name
                                     : export_kernel_name(d->x, i));
        name(d, timeline_text(tl, s->name));
        num(d, s->registers);
        for (int j = 0; j < 3; j++) num(d, s->grid[j]);
        for (int j = 0; j < 3; j++) num(d, s->block[j]);
        num(d, s->static_smem_bytes);
        num(d, s->dynamic_smem_bytes);
        num_or_null(d, k->graph_node ? k->graph_node[i] : 0);
        num_or_null(d, k->graph ? k->graph[i] : 0);
        row(d);
    }
}

static int nsys_copy_kind(unsigned kind) {
    static const int kinds[TRACE_COPY_KIND_END] = { 0, 1, 2, 8, 9, 10, 0 };
    return kind < TRACE_COPY_KIND_END ? kinds[kind] : 0;
}

static void copies(struct database *d, bool sets) {
    const struct timeline_copies *k = &d->x->tl->copies;
    prepare(d, sets ? "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET "
                      "(start,end,deviceId,contextId,greenContextId,streamId,correlationId,"
                      "globalPid,bytes) VALUES (?,?,?,?,?,?,?,?,?)"
                    : "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY "
                      "(start,end,deviceId,contextId,greenContextId,streamId,correlationId,"
                      "globalPid,bytes,copyKind) VALUES (?,?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < k->n && !d->failed; i++) {
        if ((k->kind[i] == TRACE_COPY_MEMSET) != sets || !export_has(d->x, k->start_ns[i], k->end_ns[i]))
            continue;
        device_work(d, k->start_ns[i], k->end_ns[i], k->lane[i], k->launch[i]);
        num(d, k->bytes[i]);
        if (!sets) num(d, (uint64_t)nsys_copy_kind(k->kind[i]));
        row(d);
    }
}

static void launches(struct database *d) {
    const struct timeline_launches *k = &d->x->tl->launches;
    prepare(d, "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME "
               "(start,end,eventClass,globalTid,correlationId,nameId,returnValue)"
               " VALUES (?,?,?,?,?,?,0)");
    for (size_t i = 0; i < k->n && !d->failed; i++) {
        if (!export_has_launch(d->x, i)) continue;
        const char *api = timeline_text(d->x->tl, k->api[i]);
        bool driver = strncmp(api, "cu", 2) == 0 && strncmp(api, "cuda", 4) != 0;
        num(d, k->start_ns[i] - d->base);
        num(d, k->end_ns[i] - d->base);
        num(d, driver ? 1 : 0);
        num(d, global_tid(d, k->thread[i]));
        num(d, i + 1);
        name(d, *api ? api : "launch");
        row(d);
    }
}

static void syncs(struct database *d) {
    const struct timeline_syncs *s = &d->x->tl->syncs;
    prepare(
        d, "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start,end,contextId,streamId,globalPid,syncType)"
           " VALUES (?,?,?,?,?,?)");
    for (size_t i = 0; i < s->n && !d->failed; i++) {
        if (!export_has(d->x, s->start_ns[i], s->end_ns[i])) continue;
        num(d, s->start_ns[i] - d->base);
        num(d, s->end_ns[i] - d->base);
        num(d, s->context[i]);
        num(d, s->stream[i]);
        num(d, global_tid(d, s->thread[i]) & ~(uint64_t)0xffffff);
        num(d, s->kind[i]);
        row(d);
    }
}

static void ranges(struct database *d) {
    const struct timeline_ranges *r = &d->x->tl->ranges;
    prepare(d, "INSERT INTO NVTX_EVENTS (start,end,eventType,text,globalTid,domainId) VALUES (?,?,?,?,?,0)");
    for (size_t i = 0; i < r->n && !d->failed; i++) {
        if (!export_has(d->x, r->start_ns[i], r->end_ns[i])) continue;
        bool mark = r->flags[i] & TRACE_RANGE_MARK, crossing = r->flags[i] & TRACE_RANGE_FREE;
        num(d, r->start_ns[i] - d->base);
        if (mark)
            null(d);
        else
            num(d, r->end_ns[i] - d->base);
        num(d, mark ? NVTX_MARK : crossing ? NVTX_START_END : NVTX_PUSH_POP);
        str(d, timeline_text(d->x->tl, r->name[i]));
        num(d, global_tid(d, r->thread[i]));
        row(d);
    }
}

/* A type is a set of metrics on a GPU; the low byte is the GPU's index. The timestamp of a sample is its
 * end. */
static uint64_t metric_type(uint32_t set, uint32_t device) { return (uint64_t)set << 8 | (device & 0xff); }

static void metric_names(struct database *d) {
    const struct timeline *tl = d->x->tl;
    prepare(d, "INSERT INTO TARGET_INFO_GPU_METRICS (typeId,sourceId,typeName,metricId,metricName) VALUES "
               "(?,0,?,?,?)");
    for (uint32_t set = 0; set < tl->nmetric_sets; set++)
        for (uint32_t device = 0; device < tl->ndevices; device++)
            for (uint32_t m = 0; m < tl->metric_sets[set].n; m++) {
                num(d, metric_type(set, device));
                str(d, timeline_text(tl, tl->devices[device].name));
                num(d, m);
                str(d, timeline_text(tl, tl->metric_sets[set].names[m]));
                row(d);
            }
}

static void metrics(struct database *d) {
    const struct timeline *tl = d->x->tl;
    const struct timeline_samples *s = &tl->samples;
    if (!s->n) return;
    metric_names(d);
    prepare(d, "INSERT INTO GPU_METRICS (timestamp,typeId,metricId,value) VALUES (?,?,?,?)");
    for (size_t i = 0; i < s->n && !d->failed; i++) {
        if (!export_has(d->x, s->start_ns[i], s->end_ns[i])) continue;
        for (uint32_t m = 0; m < tl->metric_sets[s->set[i]].n; m++) {
            double value = (double)tl->sample_values[s->first[i] + m];
            if (isnan(value)) continue;
            num(d, s->end_ns[i] - d->base);
            num(d, metric_type(s->set[i], s->device[i]));
            num(d, m);
            real(d, value);
            row(d);
        }
    }
}

static void num_if_known(struct database *d, uint32_t v) {
    if (v == TRACE_UNKNOWN_U32)
        null(d);
    else
        num(d, v);
}

static void power(struct database *d) {
    const struct timeline_powers *p = &d->x->tl->powers;
    prepare(d, "INSERT INTO INFERPROF_POWER "
               "(timestamp,deviceId,powerMilliwatts,energyMillijoules,smClockMhz,memoryClockMhz,"
               "temperatureCelsius,throttleReasons) VALUES (?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < p->n && !d->failed; i++) {
        if (!export_has(d->x, p->time_ns[i], p->time_ns[i])) continue;
        num(d, p->time_ns[i] - d->base);
        num(d, p->device[i]);
        num_if_known(d, p->power_mw[i]);
        num_or_null(d, p->energy_mj[i]);
        num_if_known(d, p->sm_mhz[i]);
        num_if_known(d, p->memory_mhz[i]);
        num_if_known(d, p->temperature_c[i]);
        num(d, p->throttle_reasons[i]);
        row(d);
    }
}

static void tokens(struct database *d) {
    const struct timeline_tokens *t = &d->x->tl->tokens;
    prepare(d, "INSERT INTO INFERPROF_TOKENS (timestamp,globalTid,request,count,kind) VALUES (?,?,?,?,?)");
    for (size_t i = 0; i < t->n && !d->failed; i++) {
        if (!export_has(d->x, t->time_ns[i], t->time_ns[i])) continue;
        num(d, t->time_ns[i] - d->base);
        num(d, global_tid(d, t->thread[i]));
        num(d, t->request[i]);
        num(d, t->count[i]);
        num(d, t->kind[i]);
        row(d);
    }
}

static void gemms(struct database *d) {
    const struct timeline *tl = d->x->tl;
    prepare(
        d,
        "INSERT INTO INFERPROF_GEMMS (start,globalTid,correlationId,m,n,k,batch,typesId,layoutId,algorithmId)"
        " VALUES (?,?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < tl->gemms.n && !d->failed; i++) {
        const struct trace_gemm *g = &tl->gemms.v[i];
        uint32_t launch = tl->gemms.launch[i];
        if (!export_has(d->x, g->start_ns, g->start_ns)) continue;
        num(d, g->start_ns - d->base);
        num(d, global_tid(d, g->thread));
        num_or_null(d, launch == TIMELINE_NONE ? 0 : (uint64_t)launch + 1);
        num(d, g->m);
        num(d, g->n);
        num(d, g->k);
        num(d, g->batch);
        name(d, timeline_text(tl, g->types));
        name(d, timeline_text(tl, g->layout));
        name(d, timeline_text(tl, g->algorithm));
        row(d);
    }
}

static void targets(struct database *d) {
    const struct timeline *tl = d->x->tl;
    prepare(d, "INSERT INTO TARGET_INFO_GPU "
               "(id,name,uuid,l2CacheSize,totalMemory,memoryBandwidth,clockRate,smCount,cuDevice,"
               "maxShmemPerSm,maxRegistersPerSm,threadsPerWarp,maxWarpsPerSm,maxBlocksPerSm,computeMajor,"
               "computeMinor)"
               " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < tl->ndevices; i++) {
        const struct timeline_device *g = &tl->devices[i];
        num(d, i);
        str(d, timeline_text(tl, g->name));
        str(d, timeline_text(tl, g->uuid));
        num_or_null(d, g->l2_bytes);
        num_or_null(d, g->memory_bytes);
        num_or_null(d, isfinite(g->peak_bytes_per_s) ? (uint64_t)g->peak_bytes_per_s : 0);
        num_or_null(d, g->sm_clock_khz * 1000);
        num_or_null(d, g->sms);
        num(d, i);
        num_or_null(d, g->smem_per_sm_bytes);
        num_or_null(d, g->regs_per_sm);
        num_or_null(d, g->warp_size);
        num_or_null(d, g->warp_size ? g->max_threads_per_sm / g->warp_size : 0);
        num_or_null(d, g->max_blocks_per_sm);
        num_or_null(d, g->cc_major);
        num_or_null(d, g->cc_minor);
        row(d);
    }
    prepare(
        d,
        "INSERT INTO TARGET_INFO_CUDA_DEVICE (gpuId,cudaId,pid,uuid,numMultiprocessors) VALUES (?,?,?,?,?)");
    for (uint32_t p = 0; p < tl->nprocesses; p++)
        for (size_t i = 0; i < tl->ndevices; i++) {
            num(d, i);
            num(d, i);
            num(d, export_pid(d->x, p));
            str(d, timeline_text(tl, tl->devices[i].uuid));
            num_or_null(d, tl->devices[i].sms);
            row(d);
        }
}

static void processes(struct database *d) {
    const struct timeline *tl = d->x->tl;
    prepare(d, "INSERT INTO PROCESSES (globalPid,pid,name) VALUES (?,?,?)");
    for (uint32_t i = 0; i < tl->nprocesses; i++) {
        num(d, global_pid(d, i));
        num(d, export_pid(d->x, i));
        str(d, timeline_text(tl, tl->processes[i].command));
        row(d);
    }
    prepare(d, "INSERT INTO ThreadNames (nameId,priority,globalTid) VALUES (?,20,?)");
    for (uint32_t i = 0; i < tl->nthreads; i++) {
        name(d, timeline_text(tl, tl->threads[i].name));
        num(d, global_tid(d, i));
        row(d);
    }
}

static void session(struct database *d) {
    char when[40];
    bool relative = d->x->tl->nprocesses && d->x->tl->processes[0].relative_clock;
    if (!relative) {
        prepare(d, "INSERT INTO TARGET_INFO_SESSION_START_TIME (utcEpochNs,utcTime) VALUES (?,?)");
        num(d, d->base);
        str(d, clock_format(d->base, "%Y-%m-%d %H:%M:%S", 1, when, sizeof when));
        row(d);
    }
    prepare(d, "INSERT INTO META_DATA_EXPORT (name,value) VALUES (?,?)");
    str(d, "EXPORT_PRODUCT_NAME");
    str(d, "inferprof");
    row(d);
    str(d, "EXPORT_SCHEMA_VERSION");
    str(d, "3.24.14");
    row(d);
}

static void strings(struct database *d) {
    prepare(d, "INSERT INTO StringIds (id,value) VALUES (?,?)");
    for (uint32_t i = 0; i < intern_count(d->strings); i++) {
        num(d, (uint64_t)i + 1);
        str(d, intern_text(d->strings, i));
        row(d);
    }
}

static void run(struct database *d, const char *sql) {
    if (!d->failed) d->failed = sqlite3_exec(d->db, sql, NULL, NULL, NULL) != SQLITE_OK;
}

static void fill(struct database *d) {
    run(d, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN");
    run(d, schema);
    session(d);
    processes(d);
    targets(d);
    kernels(d);
    copies(d, false);
    copies(d, true);
    launches(d);
    syncs(d);
    ranges(d);
    metrics(d);
    power(d);
    tokens(d);
    gemms(d);
    strings(d);
    sqlite3_finalize(d->insert);
    d->insert = NULL;
    run(d, "COMMIT");
}

/* Returns the earliest time in the timeline, so that no record gets a negative time. Samplers start before
 * the program. */
static uint64_t first_moment(const struct timeline *tl) {
    uint64_t first = tl->start_ns;
    if (tl->samples.n) first = MIN(first, tl->samples.start_ns[0]);
    if (tl->powers.n) first = MIN(first, tl->powers.time_ns[0]);
    if (tl->tokens.n) first = MIN(first, tl->tokens.time_ns[0]);
    if (tl->gemms.n) first = MIN(first, tl->gemms.v[0].start_ns);
    if (tl->syncs.n) first = MIN(first, tl->syncs.start_ns[0]);
    return first;
}

int export_sqlite(struct export_job *x, const char *path, struct err *err) {
    if (file_may_replace(path, err) < 0) return -1;
    struct database d = { .x = x, .base = first_moment(x->tl) };
    char *temporary;
    int rc = -1, scratch, fd = file_make_temporary(path, &temporary, &scratch);
    if (fd < 0) return err_set(err, "%s: %s", path, strerror(errno));
    close(fd); /* SQLite will fill the empty file */
    d.strings = intern_open();
    if (sqlite3_open(temporary, &d.db) != SQLITE_OK) {
        err_set(err, "%s: %s", path, d.db ? sqlite3_errmsg(d.db) : "out of memory");
        goto done;
    }
    fill(&d);
    if (d.failed)
        err_set(err, "%s: %s", path, sqlite3_errmsg(d.db));
    else
        rc = 0;
done:
    sqlite3_close(d.db);
    intern_close(d.strings);
    if (rc == 0 && rename(temporary, path) < 0) rc = err_set(err, "%s: cannot write here", path);
    if (rc < 0) unlink(temporary);
    scratch_forget(scratch);
    free(temporary);
    return rc;
}
