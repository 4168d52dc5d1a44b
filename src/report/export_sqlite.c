/* An SQLite database with the tables and columns of an Nsight Systems export. Times are ns since
 * TARGET_INFO_SESSION_START_TIME; a thread is (process << 24 | thread). Data that Nsight Systems has no table
 * for is in tables named INFERPROF_*. */
#include <errno.h>
#include <inttypes.h>
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
#include "report/export_records.h"

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

struct database {
    struct export_job *x;
    sqlite3 *db;
    sqlite3_stmt *insert;
    struct intern *strings;
    uint64_t base;
    int at; /* number of the next parameter */
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
static void str_or_null(struct database *d, const char *s) {
    if (*s)
        str(d, s);
    else
        null(d);
}
static void name(struct database *d, const char *s) { num(d, (uint64_t)intern_str(d->strings, s) + 1); }
static void row(struct database *d) {
    if (d->failed) return;
    d->failed = sqlite3_step(d->insert) != SQLITE_DONE;
    sqlite3_reset(d->insert);
    d->at = 1;
    d->x->written++;
}

static bool has_required(const struct export_table *t, const struct export_row *r) {
    for (size_t k = 0; k < t->n; k++)
        if (t->columns[k].use == EXPORT_REQUIRED && !export_is_known(&t->columns[k], t->columns[k].get(r)))
            return false;
    return true;
}

static void bind(struct database *d, const struct export_column *c, const struct export_row *r) {
    struct column_value v = c->get(r);
    if (!export_is_known(c, v))
        null(d);
    else if (v.type == COLUMN_STR && c->use == EXPORT_NAME)
        name(d, v.str);
    else if (v.type == COLUMN_STR)
        str(d, v.str);
    else if (v.type == COLUMN_F64)
        real(d, v.f64);
    else
        num(d, c->use == EXPORT_TIME ? v.u64 - d->base : v.u64);
}

static void prepare_table(struct database *d, const struct export_table *t) {
    struct strbuf sql = STRBUF_INIT, values = STRBUF_INIT;
    strbuf_addf(&sql, "INSERT INTO %s (", t->sql);
    for (size_t k = 0; k < t->n; k++)
        if (t->columns[k].sql) {
            strbuf_addf(&sql, "%s%s", values.len ? "," : "", t->columns[k].sql);
            strbuf_addstr(&values, values.len ? ",?" : "?");
        }
    strbuf_addf(&sql, ") VALUES (%s)", values.buf);
    prepare(d, sql.buf);
    strbuf_free(&sql);
    strbuf_free(&values);
}

static void records(struct database *d, const struct export_table *t) {
    prepare_table(d, t);
    for (size_t i = 0; i < export_count(t, d->x->tl) && !d->failed; i++) {
        if (!t->has(d->x, i)) continue;
        uint32_t rows = t->rows ? t->rows(d->x, i) : 1;
        for (uint32_t m = 0; m < rows; m++) {
            struct export_row r = { d->x, i, m };
            if (!has_required(t, &r)) continue;
            for (size_t k = 0; k < t->n; k++)
                if (t->columns[k].sql) bind(d, &t->columns[k], &r);
            row(d);
        }
    }
}

static void metric_names(struct database *d) {
    const struct timeline *tl = d->x->tl;
    prepare(d, "INSERT INTO TARGET_INFO_GPU_METRICS (typeId,sourceId,typeName,metricId,metricName) VALUES "
               "(?,0,?,?,?)");
    for (uint32_t set = 0; set < tl->nmetric_sets; set++)
        for (uint32_t device = 0; device < tl->ndevices; device++)
            for (uint32_t m = 0; m < tl->metric_sets[set].n; m++) {
                num(d, export_metric_type(set, export_device_number(d->x, device)));
                str(d, timeline_text(tl, tl->devices[device].name));
                num(d, m);
                str(d, timeline_text(tl, tl->metric_sets[set].names[m]));
                row(d);
            }
}

/* Names of domains and of our categories. Without them, an import could not tell operators, annotations,
 * Python frames and the profiler's own ranges apart. */
static void nvtx_names(struct database *d) {
    const struct timeline *tl = d->x->tl;
    enum { NVTX_CATEGORY = 33, NVTX_DOMAIN = 75 };
    struct intern *seen = intern_open();
    char text[64];
    prepare(d, "INSERT INTO NVTX_EVENTS (start,eventType,text,globalTid,category,domainId) "
               "VALUES (0,?,?,?,?,?)");
    for (unsigned i = 0; tl->ranges.n && i < TRACE_CATEGORY_END; i++) {
        num(d, NVTX_CATEGORY);
        snprintf(text, sizeof text, "inferprof:%s", trace_range_category_name(i));
        str(d, text);
        null(d);
        num(d, export_nvtx_category(i));
        num(d, 0);
        row(d);
    }
    for (size_t i = 0; i < tl->ranges.n; i++) {
        uint32_t thread = tl->ranges.thread[i], domain = tl->ranges.domain[i];
        uint32_t key[2] = { tl->threads[thread].process, domain }, known = intern_count(seen);
        if (!domain || intern_id(seen, (const char *)key, sizeof key) < known) continue;
        num(d, NVTX_DOMAIN);
        str(d, timeline_text(tl, domain));
        num(d, export_global_tid(d->x, thread));
        null(d);
        num(d, domain);
        row(d);
    }
    intern_close(seen);
}

static void cuda_devices(struct database *d) {
    const struct timeline *tl = d->x->tl;
    prepare(
        d,
        "INSERT INTO TARGET_INFO_CUDA_DEVICE (gpuId,cudaId,pid,uuid,numMultiprocessors) VALUES (?,?,?,?,?)");
    for (uint32_t p = 0; p < tl->nprocesses; p++)
        for (uint32_t i = 0; i < tl->ndevices; i++) {
            num(d, export_device_number(d->x, i));
            num(d, export_device_number(d->x, i));
            num(d, export_sqlite_pid(d->x, p));
            str_or_null(d, timeline_text(tl, tl->devices[i].uuid));
            num_or_null(d, tl->devices[i].sms);
            row(d);
        }
}

static void processes(struct database *d) {
    const struct timeline *tl = d->x->tl;
    prepare(d, "INSERT INTO PROCESSES (globalPid,pid,name) VALUES (?,?,?)");
    for (uint32_t i = 0; i < tl->nprocesses; i++) {
        num(d, export_global_pid(d->x, i));
        num(d, export_sqlite_pid(d->x, i));
        str(d, timeline_text(tl, tl->processes[i].command));
        row(d);
    }
    prepare(d, "INSERT INTO ThreadNames (nameId,priority,globalTid) VALUES (?,20,?)");
    for (uint32_t i = 0; i < tl->nthreads; i++) {
        name(d, timeline_text(tl, tl->threads[i].name));
        num(d, export_global_tid(d->x, i));
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
    cuda_devices(d);
    if (d->x->tl->samples.n) metric_names(d);
    nvtx_names(d);
    for (size_t i = 0; i < export_ntables; i++)
        if (export_tables[i].sql) records(d, &export_tables[i]);
    strings(d);
    sqlite3_finalize(d->insert);
    d->insert = NULL;
    run(d, "COMMIT");
}

/* Returns the earliest time, so that no record gets a negative time. Samplers start before the program. */
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
    close(fd); /* SQLite fills the empty file */
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
