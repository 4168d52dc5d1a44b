/* Call paths for flame graph tools: one sample per path, weighted with the time of its last frame.
 *   collapsed    "prefill;layer;aten::mm 1234" for flamegraph.pl; device time, or host time without kernels
 *   speedscope   JSON with the profiles "device time" (if there are kernels) and "host time"
 *   pprof        profile.proto, not compressed, with the sample types calls, host and device */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/jsonw.h"
#include "base/util.h"
#include "report/export.h"
#include "report/protobuf.h"

#define MAX_DEPTH 256

/* Rows of a path, outermost first, without the root. A longer path loses its outermost rows. */
struct path {
    uint32_t rows[MAX_DEPTH];
    size_t n;
};

static void path_of(const struct analysis *a, size_t row, struct path *p) {
    p->n = MIN(a->calls[row].depth, (size_t)MAX_DEPTH);
    for (size_t i = p->n; i-- > 0; row = a->calls[row].parent) p->rows[i] = (uint32_t)row;
}

static bool has_device_time(const struct analysis *a) { return a->ncalls && a->calls[0].device_total_ns > 0; }

static uint64_t whole_ns(double ns) { return ns > 0 ? (uint64_t)llround(ns) : 0; }

static uint64_t weight_of(const struct analysis_call *c, bool device) {
    return whole_ns(device ? c->device_ns : c->host_ns);
}

static int write_buffer(const char *path, struct strbuf *s, struct err *err) {
    int rc = file_write_atomic(path, s->buf, s->len, err);
    strbuf_free(s);
    return rc;
}

/* ---- collapsed */

/* Semicolons separate frames. They become colons. */
static void add_frame(struct strbuf *out, const char *name) {
    size_t start = out->len;
    strbuf_add_printable(out, name, strlen(name));
    for (char *p = out->buf + start; *p; p++)
        if (*p == ';') *p = ':';
}

int export_collapsed(struct export_job *x, const char *path, struct err *err) {
    const struct analysis *a = x->a;
    struct strbuf s = STRBUF_INIT;
    struct path p;
    bool device = has_device_time(a);
    for (size_t i = 1; i < a->ncalls; i++) {
        uint64_t weight = weight_of(&a->calls[i], device);
        if (!weight) continue;
        path_of(a, i, &p);
        for (size_t k = 0; k < p.n; k++) {
            if (k) strbuf_addch(&s, ';');
            add_frame(&s, a->calls[p.rows[k]].name);
        }
        strbuf_addf(&s, " %llu\n", (unsigned long long)weight);
        x->written++;
    }
    return write_buffer(path, &s, err);
}

/* ---- speedscope */

static void speedscope_profile(struct export_job *x, bool device, struct jsonw *j) {
    const struct analysis *a = x->a;
    struct path p;
    uint64_t end = 0;
    jsonw_object(j);
    jsonw_kstr(j, "type", "sampled");
    jsonw_kstr(j, "name", device ? "device time" : "host time");
    jsonw_kstr(j, "unit", "nanoseconds");
    jsonw_ku64(j, "startValue", 0);
    jsonw_karray(j, "samples");
    for (size_t i = 1; i < a->ncalls; i++) {
        if (!weight_of(&a->calls[i], device)) continue;
        path_of(a, i, &p);
        jsonw_array(j);
        for (size_t k = 0; k < p.n; k++) jsonw_u64(j, p.rows[k]);
        jsonw_end(j);
        x->written++;
    }
    jsonw_end(j);
    jsonw_karray(j, "weights");
    for (size_t i = 1; i < a->ncalls; i++) {
        uint64_t weight = weight_of(&a->calls[i], device);
        if (weight) jsonw_u64(j, weight);
        end += weight;
    }
    jsonw_end(j);
    jsonw_ku64(j, "endValue", end);
    jsonw_end(j);
}

int export_speedscope(struct export_job *x, const char *path, struct err *err) {
    struct strbuf s = STRBUF_INIT;
    struct jsonw j;
    jsonw_start(&j, &s, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_kstr(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
    jsonw_kstr(&j, "exporter", "inferprof");
    jsonw_kobject(&j, "shared");
    jsonw_karray(&j, "frames");
    for (size_t i = 0; i < x->a->ncalls; i++) {
        jsonw_object(&j);
        jsonw_kstr(&j, "name", x->a->calls[i].name);
        jsonw_end(&j);
    }
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_karray(&j, "profiles");
    if (has_device_time(x->a)) speedscope_profile(x, true, &j);
    speedscope_profile(x, false, &j);
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_finish(&j);
    return write_buffer(path, &s, err);
}

/* ---- pprof */

/* Field numbers of pprof's profile.proto */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_DURATION_NS = 10,
    PROFILE_DEFAULT_TYPE = 14,
    TYPE_NAME = 1,
    TYPE_UNIT = 2,
    SAMPLE_LOCATIONS = 1,
    SAMPLE_VALUES = 2,
    LOCATION_ID = 1,
    LOCATION_LINE = 4,
    LINE_FUNCTION = 1,
    FUNCTION_ID = 1,
    FUNCTION_NAME = 2
};
/* Indices of the fixed texts. The names of the rows follow. */
enum { TEXT_EMPTY, TEXT_CALLS, TEXT_COUNT, TEXT_HOST, TEXT_DEVICE, TEXT_NS, TEXT_FIRST_ROW };

static void pprof_type(struct strbuf *s, uint64_t name, uint64_t unit) {
    struct strbuf part = STRBUF_INIT;
    protobuf_u64(&part, TYPE_NAME, name);
    protobuf_u64(&part, TYPE_UNIT, unit);
    protobuf_bytes(s, PROFILE_SAMPLE_TYPE, part.buf, part.len);
    strbuf_free(&part);
}

/* The innermost location is first. Ids must not be 0; row 0 is the root, which is never a location. */
static void pprof_sample(struct strbuf *s, const struct analysis *a, size_t row) {
    struct strbuf part = STRBUF_INIT, list = STRBUF_INIT;
    struct path p;
    path_of(a, row, &p);
    for (size_t k = p.n; k-- > 0;) protobuf_varint(&list, p.rows[k]);
    protobuf_bytes(&part, SAMPLE_LOCATIONS, list.buf, list.len);
    strbuf_reset(&list);
    protobuf_varint(&list, a->calls[row].calls);
    protobuf_varint(&list, whole_ns(a->calls[row].host_ns));
    protobuf_varint(&list, whole_ns(a->calls[row].device_ns));
    protobuf_bytes(&part, SAMPLE_VALUES, list.buf, list.len);
    protobuf_bytes(s, PROFILE_SAMPLE, part.buf, part.len);
    strbuf_free(&part);
    strbuf_free(&list);
}

/* One location and one function per row. */
static void pprof_row(struct strbuf *s, size_t row) {
    struct strbuf part = STRBUF_INIT, line = STRBUF_INIT;
    protobuf_u64(&part, LOCATION_ID, row);
    protobuf_u64(&line, LINE_FUNCTION, row);
    protobuf_bytes(&part, LOCATION_LINE, line.buf, line.len);
    protobuf_bytes(s, PROFILE_LOCATION, part.buf, part.len);
    strbuf_reset(&part);
    protobuf_u64(&part, FUNCTION_ID, row);
    protobuf_u64(&part, FUNCTION_NAME, TEXT_FIRST_ROW + row);
    protobuf_bytes(s, PROFILE_FUNCTION, part.buf, part.len);
    strbuf_free(&part);
    strbuf_free(&line);
}

int export_pprof(struct export_job *x, const char *path, struct err *err) {
    static const char *const texts[] = {
        [TEXT_EMPTY] = "",    [TEXT_CALLS] = "calls",   [TEXT_COUNT] = "count",
        [TEXT_HOST] = "host", [TEXT_DEVICE] = "device", [TEXT_NS] = "nanoseconds",
    };
    const struct analysis *a = x->a;
    struct strbuf s = STRBUF_INIT;
    pprof_type(&s, TEXT_CALLS, TEXT_COUNT);
    pprof_type(&s, TEXT_HOST, TEXT_NS);
    pprof_type(&s, TEXT_DEVICE, TEXT_NS);
    for (size_t i = 1; i < a->ncalls; i++) {
        if (!a->calls[i].calls) continue;
        pprof_sample(&s, a, i);
        x->written++;
    }
    for (size_t i = 1; i < a->ncalls; i++) pprof_row(&s, i);
    for (size_t i = 0; i < COUNTOF(texts); i++) protobuf_text(&s, PROFILE_STRING, texts[i]);
    for (size_t i = 0; i < a->ncalls; i++) protobuf_text(&s, PROFILE_STRING, a->calls[i].name);
    protobuf_u64(&s, PROFILE_DURATION_NS, whole_ns(a->wall_ns));
    protobuf_u64(&s, PROFILE_DEFAULT_TYPE, has_device_time(a) ? TEXT_DEVICE : TEXT_HOST);
    return write_buffer(path, &s, err);
}
