#include "report/stats_json.h"

#include <math.h>
#include <stdio.h>

#include "base/jsonw.h"

static const char *const copy_names[TRACE_COPY_KIND_END] = {
    [TRACE_COPY_UNKNOWN] = "unknown", [TRACE_COPY_HTOD] = "HtoD", [TRACE_COPY_DTOH] = "DtoH",
    [TRACE_COPY_DTOD] = "DtoD",       [TRACE_COPY_HTOH] = "HtoH", [TRACE_COPY_PTOP] = "PtoP",
    [TRACE_COPY_MEMSET] = "memset",
};

static void kms(struct jsonw *j, const char *key, double ns) { jsonw_knum(j, key, ns / 1e6); }

static void put_events(const struct trace_stats *st, struct jsonw *j) {
    jsonw_kobject(j, "events");
    for (size_t i = 0; i < st->events.n; i++)
        jsonw_ku64(j, trace_stats_name(st, st->events.v[i].name), st->events.v[i].count);
    jsonw_end(j);
}

static void put_problems(const struct trace_stats *st, struct jsonw *j) {
    jsonw_kobject(j, "problems");
    for (size_t i = 0; i < st->problems.n; i++)
        jsonw_ku64(j, trace_stats_name(st, st->problems.v[i].name), st->problems.v[i].count);
    jsonw_end(j);
}

static void put_kernels(const struct trace_stats *st, struct jsonw *j) {
    jsonw_kobject(j, "kernels");
    jsonw_ku64(j, "count", st->kernel_calls);
    kms(j, "total_ms", (double)st->kernel_ns);
    jsonw_karray(j, "by_name");
    for (size_t i = 0; i < st->kernels.n; i++) {
        const struct trace_stats_kernel *k = &st->kernels.v[i];
        if (!k->calls) continue;
        jsonw_object(j);
        jsonw_kstr(j, "name", trace_stats_name(st, k->name));
        jsonw_ku64(j, "calls", k->calls);
        kms(j, "total_ms", (double)k->total_ns);
        jsonw_knum(j, "mean_us", (double)k->total_ns / (double)k->calls / 1e3);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

/* One file: the device's number. Several: its rank, or its place among the files, comes first. */
static void gpu_key(const struct trace_stats *st, const struct trace_stats_gpu *g, char *out, size_t cap) {
    int64_t rank = g->file < st->ranks.n ? st->ranks.v[g->file].rank : -1;
    if (st->files < 2)
        snprintf(out, cap, "%u", g->device);
    else
        snprintf(out, cap, "%s%lld:%u", rank >= 0 ? "rank" : "file",
                 rank >= 0 ? (long long)rank : (long long)g->file, g->device);
}

static void put_gpus(const struct trace_stats *st, struct jsonw *j) {
    jsonw_kobject(j, "gpu");
    for (size_t i = 0; i < st->gpus.n; i++) {
        const struct trace_stats_gpu *g = &st->gpus.v[i];
        char key[64];
        gpu_key(st, g, key, sizeof key);
        uint64_t span_ns = g->last_ns - g->first_ns;
        jsonw_kobject(j, key);
        jsonw_kstr(j, "name", trace_stats_name(st, g->name));
        kms(j, "busy_ms", (double)g->busy_ns);
        kms(j, "idle_ms", (double)(span_ns - g->busy_ns));
        kms(j, "span_ms", (double)span_ns);
        kms(j, "kernel_busy_ms", (double)g->kernel_busy_ns);
        jsonw_ku64(j, "kernels", g->kernels);
        jsonw_ku64(j, "copies", g->copies);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void put_op(const struct trace_stats *st, const struct trace_stats_op *o, struct jsonw *j) {
    jsonw_object(j);
    jsonw_kstr(j, "name", trace_stats_name(st, o->name));
    jsonw_ku64(j, "calls", o->calls);
    kms(j, "total_ms", (double)o->total_ns);
    kms(j, "self_ms", (double)o->self_ns);
    kms(j, "device_ms", (double)o->device_ns);
    kms(j, "self_device_ms", (double)o->self_device_ns);
    jsonw_end(j);
}

static void put_ops(const struct trace_stats *st, struct jsonw *j) {
    jsonw_kobject(j, "ops");
    jsonw_karray(j, "by_name");
    for (size_t i = 0; i < st->ops.n; i++) put_op(st, &st->ops.v[i], j);
    jsonw_end(j);
    jsonw_end(j);
    jsonw_kobject(j, "stages");
    jsonw_karray(j, "by_name");
    for (size_t i = 0; i < st->stages.n; i++) put_op(st, &st->stages.v[i], j);
    jsonw_end(j);
    jsonw_end(j);
}

static void put_copies(const struct trace_stats *st, struct jsonw *j) {
    uint64_t count = 0, bytes = 0, ns = 0;
    for (unsigned i = 0; i < TRACE_COPY_KIND_END; i++) {
        count += st->copies[i].count;
        bytes += st->copies[i].bytes;
        ns += st->copies[i].total_ns;
    }
    jsonw_kobject(j, "copies");
    jsonw_ku64(j, "count", count);
    jsonw_ku64(j, "bytes", bytes);
    kms(j, "total_ms", (double)ns);
    jsonw_karray(j, "by_kind");
    for (unsigned i = 0; i < TRACE_COPY_KIND_END; i++) {
        const struct trace_stats_copy *c = &st->copies[i];
        if (!c->count) continue;
        jsonw_object(j);
        jsonw_kstr(j, "kind", copy_names[i]);
        jsonw_ku64(j, "count", c->count);
        jsonw_ku64(j, "bytes", c->bytes);
        kms(j, "total_ms", (double)c->total_ns);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

static void put_streams(const struct trace_stats *st, struct jsonw *j) {
    jsonw_karray(j, "streams");
    for (size_t i = 0; i < st->streams.n; i++) {
        const struct trace_stats_stream *s = &st->streams.v[i];
        jsonw_object(j);
        if (st->files > 1) jsonw_ku64(j, "file", s->file);
        jsonw_ku64(j, "device", s->device);
        jsonw_ku64(j, "stream", s->stream);
        jsonw_ku64(j, "kernels", s->kernels);
        jsonw_ku64(j, "copies", s->copies);
        kms(j, "busy_ms", (double)s->busy_ns);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static double share(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : NAN; }

static void put_rank_number(struct jsonw *j, const char *key, int64_t v) {
    jsonw_key(j, key);
    if (v < 0)
        jsonw_null(j);
    else
        jsonw_i64(j, v);
}

static void put_rank(const struct trace_stats *st, const struct trace_stats_rank *r, struct jsonw *j) {
    jsonw_object(j);
    put_rank_number(j, "rank", r->rank);
    put_rank_number(j, "world_size", r->world_size);
    jsonw_kstr(j, "file", trace_stats_name(st, r->path));
    jsonw_ku64(j, "kernels", r->kernels);
    kms(j, "kernel_ms", (double)r->kernel_ns);
    kms(j, "span_ms", (double)r->span_ns);
    kms(j, "busy_ms", (double)r->busy_ns);
    kms(j, "compute_ms", (double)r->compute_ns);
    kms(j, "communication_ms", (double)r->comm_ns);
    kms(j, "communication_hidden_ms", (double)r->comm_hidden_ns);
    jsonw_knum(j, "communication_share", share(r->comm_ns, r->busy_ns));
    jsonw_knum(j, "communication_overlap", share(r->comm_hidden_ns, r->comm_ns));
    kms(j, "late_ms", r->late_ns);
    jsonw_end(j);
}

static void put_ranks(const struct trace_stats *st, struct jsonw *j) {
    uint64_t busy = 0, comm = 0, hidden = 0;
    jsonw_karray(j, "ranks");
    for (size_t i = 0; i < st->ranks.n; i++) {
        const struct trace_stats_rank *r = &st->ranks.v[i];
        put_rank(st, r, j);
        busy += r->busy_ns;
        comm += r->comm_ns;
        hidden += r->comm_hidden_ns;
    }
    jsonw_end(j);
    if (st->ranks.n < 2) return;
    jsonw_kobject(j, "together");
    kms(j, "busy_ms", (double)busy);
    kms(j, "communication_ms", (double)comm);
    jsonw_knum(j, "communication_share", share(comm, busy));
    jsonw_knum(j, "communication_overlap", share(hidden, comm));
    jsonw_ku64(j, "matched_collectives", st->skew.matched);
    kms(j, "skew_mean_ms", st->skew.mean_ns);
    kms(j, "skew_max_ms", st->skew.max_ns);
    const struct trace_stats_rank *slow =
        st->skew.slowest < st->ranks.n ? &st->ranks.v[st->skew.slowest] : NULL;
    put_rank_number(j, "slowest_rank", slow ? slow->rank : -1);
    jsonw_kstr(j, "slowest_file", slow ? trace_stats_name(st, slow->path) : NULL);
    jsonw_end(j);
}

void stats_json(const struct trace_stats *st, struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", "inferprof.stats/1");
    put_events(st, &j);
    put_kernels(st, &j);
    put_gpus(st, &j);
    put_ops(st, &j);
    put_copies(st, &j);
    put_streams(st, &j);
    put_ranks(st, &j);
    put_problems(st, &j);
    jsonw_end(&j);
    jsonw_finish(&j);
}
