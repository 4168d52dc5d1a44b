/* GPU properties, and the counters sampled on the GPUs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/util.h"
#include "base/vec.h"
#include "import/nsys_internal.h"

#define WARP_THREADS 32

static void device_meta(struct nsys *n, uint64_t device, const char *what, uint64_t value) {
    char key[64];
    snprintf(key, sizeof key, "device.%u.%s", (unsigned)device, what);
    if (value) sink_meta(n->sink, key, "%llu", (unsigned long long)value);
}

static void write_gpu(struct nsys *n, const struct nsys_rows *r) {
    enum {
        ID,
        NAME,
        UUID,
        L2,
        MEMORY,
        BANDWIDTH,
        CLOCK,
        SMS,
        SHARED,
        REGISTERS,
        WARP,
        WARPS,
        BLOCKS,
        MAJOR,
        MINOR,
        SM_MAJOR,
        SM_MINOR
    };
    uint64_t id = nsys_u64(r, ID, 0);
    char key[64];
    size_t len;
    if (id > 4096) return;
    const char *text = nsys_text(r, NAME, &len);
    snprintf(key, sizeof key, "device.%u.name", (unsigned)id);
    if (text) sink_meta(n->sink, key, "%.*s", (int)MIN(len, (size_t)200), text);
    text = nsys_text(r, UUID, &len);
    snprintf(key, sizeof key, "device.%u.uuid", (unsigned)id);
    if (text && len)
        sink_meta(n->sink, key, "%s%.*s", memcmp(text, "GPU-", MIN(len, 4u)) ? "GPU-" : "",
                  (int)MIN(len, (size_t)100), text);
    snprintf(key, sizeof key, "device.%u.cc", (unsigned)id);
    if (!nsys_null(r, MAJOR))
        sink_meta(n->sink, key, "%u.%u", (unsigned)nsys_u64(r, MAJOR, 0), (unsigned)nsys_u64(r, MINOR, 0));
    else if (!nsys_null(r, SM_MAJOR))
        sink_meta(n->sink, key, "%u.%u", (unsigned)nsys_u64(r, SM_MAJOR, 0),
                  (unsigned)nsys_u64(r, SM_MINOR, 0));
    uint64_t warp = nsys_u64(r, WARP, WARP_THREADS);
    device_meta(n, id, "l2_bytes", nsys_u64(r, L2, 0));
    device_meta(n, id, "memory_bytes", nsys_u64(r, MEMORY, 0));
    device_meta(n, id, "peak_gbps", nsys_u64(r, BANDWIDTH, 0) / 1000000000);
    device_meta(n, id, "sm_clock_khz", nsys_u64(r, CLOCK, 0) / 1000);
    device_meta(n, id, "sms", nsys_u64(r, SMS, 0));
    device_meta(n, id, "smem_per_sm_bytes", nsys_u64(r, SHARED, 0));
    device_meta(n, id, "regs_per_sm", nsys_u64(r, REGISTERS, 0));
    device_meta(n, id, "warp_size", nsys_u64(r, WARP, 0));
    device_meta(n, id, "max_threads_per_sm", MIN(nsys_u64(r, WARPS, 0), 4096) * MIN(warp, 4096));
    device_meta(n, id, "max_blocks_per_sm", nsys_u64(r, BLOCKS, 0));
}

void nsys_read_gpus(struct nsys *n) {
    static const char *const columns[] = { "id",
                                           "name",
                                           "uuid",
                                           "l2CacheSize",
                                           "totalMemory",
                                           "memoryBandwidth",
                                           "clockRate",
                                           "smCount",
                                           "maxShmemPerSm",
                                           "maxRegistersPerSm",
                                           "threadsPerWarp",
                                           "maxWarpsPerSm",
                                           "maxBlocksPerSm",
                                           "computeMajor",
                                           "computeMinor",
                                           "smMajor",
                                           "smMinor",
                                           NULL };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, "TARGET_INFO_GPU", columns, NULL))
        for (int i = 0; i < 1024 && nsys_rows_next(&r); i++) write_gpu(n, &r);
    nsys_end(n, &r);
}

/* ---- GPU_METRICS: one row per value */

struct metric {
    uint64_t type, id;
    char name[200];
};
struct metrics {
    struct metric *v;
    size_t n, cap;
};

static const char *metric_name(const struct metrics *m, uint64_t type, uint64_t id) {
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i].type == type && m->v[i].id == id) return m->v[i].name;
    return NULL;
}

static void read_metric_names(struct nsys *n, struct metrics *m) {
    static const char *const columns[] = { "typeId", "metricId", "metricName", NULL };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, "TARGET_INFO_GPU_METRICS", columns, NULL))
        while (nsys_rows_next(&r) && m->n < 4096) {
            size_t len;
            const char *text = nsys_text(&r, 2, &len);
            struct metric row = { nsys_u64(&r, 0, 0), nsys_u64(&r, 1, 0), "" };
            snprintf(row.name, sizeof row.name, "%.*s", (int)MIN(len, sizeof row.name - 1), text ? text : "");
            vec_push(m, row);
        }
    nsys_end(n, &r);
}

/* The current sample of one metric type, that is, of one GPU. Rows of several GPUs are interleaved. */
struct sample_series {
    struct strbuf names;
    struct trace_sample s;
    size_t count;
    uint64_t type, before_ns; /* before_ns: start of the interval */
};
struct sampling {
    struct nsys *n;
    struct {
        struct sample_series *v;
        size_t n, cap;
    } series;
};

static void flush_sample(struct nsys *n, struct sample_series *g) {
    if (!g->count) return;
    for (size_t i = g->count; i < TRACE_SAMPLE_VALUES; i++) sink_values(&g->s)[i] = NAN;
    g->s.metrics = sink_text(n->sink, g->names.buf, g->names.len);
    g->s.start_ns = g->before_ns && g->before_ns < g->s.end_ns ? g->before_ns : g->s.end_ns;
    n->sink->events[SINK_EVENT_COUNTER]++;
    sink_sample(n->sink, &g->s);
    g->count = 0;
    strbuf_reset(&g->names);
}

#define MAX_SERIES 1024 /* largest number of metric types */

/* NULL: too many series */
static struct sample_series *series_of(struct sampling *g, uint64_t type) {
    for (size_t i = 0; i < g->series.n; i++)
        if (g->series.v[i].type == type) return &g->series.v[i];
    if (g->series.n == MAX_SERIES) return NULL;
    struct sample_series one = { .names = STRBUF_INIT, .type = type };
    one.s.device = (uint32_t)(type & 0xff); /* GPU index */
    vec_push(&g->series, one);
    return &g->series.v[g->series.n - 1];
}

static void take_metric(struct sampling *all, const struct metrics *m, const struct nsys_rows *r) {
    enum { TIMESTAMP, TYPE, METRIC, VALUE };
    uint64_t at, type = nsys_u64(r, TYPE, 0), end;
    struct sample_series *g = series_of(all, type);
    if (!g || !nsys_interval(all->n, r, TIMESTAMP, TIMESTAMP, &at, &end)) return;
    bool new_moment = at != g->s.end_ns;
    if (new_moment || g->count == TRACE_SAMPLE_VALUES) flush_sample(all->n, g);
    if (new_moment) {
        g->before_ns = g->s.end_ns;
        g->s.end_ns = at;
    }
    const char *name = metric_name(m, type, nsys_u64(r, METRIC, 0));
    if (g->count) strbuf_addch(&g->names, ';');
    if (name)
        strbuf_addstr(&g->names, name);
    else
        strbuf_addf(&g->names, "metric %llu", (unsigned long long)nsys_u64(r, METRIC, 0));
    sink_values(&g->s)[g->count++] = nsys_double(r, VALUE);
}

void nsys_read_metrics(struct nsys *n) {
    static const char *const columns[] = { "timestamp", "typeId", "metricId", "value", NULL };
    struct metrics m = { 0 };
    struct sampling g = { .n = n };
    struct nsys_rows r;
    read_metric_names(n, &m);
    if (nsys_rows_open(&r, n->db, "GPU_METRICS", columns, NULL))
        while (nsys_rows_next(&r)) take_metric(&g, &m, &r);
    nsys_end(n, &r);
    for (size_t i = 0; i < g.series.n; i++) {
        flush_sample(n, &g.series.v[i]);
        strbuf_free(&g.series.v[i].names);
    }
    free(g.series.v);
    free(m.v);
}
