#include "report/stats.h"

#include <math.h>
#include <stdio.h>

#include "base/jsonw.h"

static void put_ms(struct jsonw *j, const char *key, double ns) { jsonw_knum(j, key, ns / 1e6); }

static void put_counts(const struct sums_counts *counts, const char *key, struct jsonw *j) {
    jsonw_kobject(j, key);
    for (size_t i = 0; i < counts->n; i++) jsonw_ku64(j, counts->v[i].name, counts->v[i].count);
    jsonw_end(j);
}

static void put_kernels(const struct sums *s, struct jsonw *j) {
    jsonw_kobject(j, "kernels");
    jsonw_ku64(j, "count", s->kernel_calls);
    put_ms(j, "total_ms", (double)s->kernel_ns);
    jsonw_karray(j, "by_name");
    for (size_t i = 0; i < s->kernels.n; i++) {
        const struct sums_kernel *k = &s->kernels.v[i];
        if (!k->calls) continue;
        jsonw_object(j);
        jsonw_kstr(j, "name", k->name);
        jsonw_ku64(j, "calls", k->calls);
        put_ms(j, "total_ms", (double)k->total_ns);
        jsonw_knum(j, "mean_us", (double)k->total_ns / (double)k->calls / 1e3);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

/* The key of a device. With one file, the device index: "0". With several files, it includes the rank or
 * file number: "rank1:0", "file2:0". */
static void device_key(const struct analysis_totals *t, const struct totals_device *d, char *out,
                       size_t cap) {
    uint32_t rank = t->ranks[d->file].rank;
    if (t->nranks < 2)
        snprintf(out, cap, "%u", d->index);
    else if (rank != TIMELINE_NONE)
        snprintf(out, cap, "rank%u:%u", rank, d->index);
    else
        snprintf(out, cap, "file%u:%u", d->file, d->index);
}

static void put_devices(const struct analysis_totals *t, struct jsonw *j) {
    jsonw_kobject(j, "gpu");
    for (size_t i = 0; i < t->ndevices; i++) {
        const struct totals_device *d = &t->devices[i];
        char key[64];
        device_key(t, d, key, sizeof key);
        jsonw_kobject(j, key);
        jsonw_kstr(j, "name", d->name);
        put_ms(j, "busy_ms", (double)d->busy_ns);
        put_ms(j, "idle_ms", (double)(d->span_ns - d->busy_ns));
        put_ms(j, "span_ms", (double)d->span_ns);
        put_ms(j, "kernel_busy_ms", (double)d->kernel_busy_ns);
        jsonw_ku64(j, "kernels", d->kernels);
        jsonw_ku64(j, "copies", d->copies);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void put_ranges(const struct totals_ranges *ranges, const char *key, struct jsonw *j) {
    jsonw_kobject(j, key);
    jsonw_karray(j, "by_name");
    for (size_t i = 0; i < ranges->n; i++) {
        const struct totals_range *r = &ranges->v[i];
        jsonw_object(j);
        jsonw_kstr(j, "name", r->name);
        jsonw_ku64(j, "calls", r->calls);
        put_ms(j, "total_ms", (double)r->total_ns);
        put_ms(j, "self_ms", (double)r->self_ns);
        put_ms(j, "device_ms", (double)r->device_ns);
        put_ms(j, "self_device_ms", (double)r->self_device_ns);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

static void put_copies(const struct totals_copy *copies, struct jsonw *j) {
    struct totals_copy all = { 0 };
    for (unsigned i = 0; i < TRACE_COPY_KIND_END; i++) {
        all.count += copies[i].count;
        all.bytes += copies[i].bytes;
        all.total_ns += copies[i].total_ns;
    }
    jsonw_kobject(j, "copies");
    jsonw_ku64(j, "count", all.count);
    jsonw_ku64(j, "bytes", all.bytes);
    put_ms(j, "total_ms", (double)all.total_ns);
    jsonw_karray(j, "by_kind");
    for (unsigned i = 0; i < TRACE_COPY_KIND_END; i++) {
        if (!copies[i].count) continue;
        jsonw_object(j);
        jsonw_kstr(j, "kind", trace_copy_kind_name(i));
        jsonw_ku64(j, "count", copies[i].count);
        jsonw_ku64(j, "bytes", copies[i].bytes);
        put_ms(j, "total_ms", (double)copies[i].total_ns);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

static void put_streams(const struct analysis_totals *t, struct jsonw *j) {
    jsonw_karray(j, "streams");
    for (size_t i = 0; i < t->nstreams; i++) {
        const struct totals_stream *s = &t->streams[i];
        jsonw_object(j);
        if (t->nranks > 1) jsonw_ku64(j, "file", s->file);
        jsonw_ku64(j, "device", s->device);
        jsonw_ku64(j, "stream", s->stream);
        jsonw_ku64(j, "kernels", s->kernels);
        jsonw_ku64(j, "copies", s->copies);
        put_ms(j, "busy_ms", (double)s->busy_ns);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static double share(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : NAN; }

static void put_rank_number(struct jsonw *j, const char *key, uint32_t v) {
    jsonw_key(j, key);
    if (v == TIMELINE_NONE)
        jsonw_null(j);
    else
        jsonw_u64(j, v);
}

static void put_rank(const struct totals_rank *r, const char *file, struct jsonw *j) {
    jsonw_object(j);
    put_rank_number(j, "rank", r->rank);
    put_rank_number(j, "world_size", r->world_size);
    jsonw_kstr(j, "file", file);
    jsonw_ku64(j, "kernels", r->kernels);
    put_ms(j, "kernel_ms", (double)r->kernel_ns);
    put_ms(j, "span_ms", (double)r->span_ns);
    put_ms(j, "busy_ms", (double)r->busy_ns);
    put_ms(j, "compute_ms", (double)r->compute_ns);
    put_ms(j, "communication_ms", (double)r->comm_ns);
    put_ms(j, "communication_hidden_ms", (double)r->comm_hidden_ns);
    jsonw_knum(j, "communication_share", share(r->comm_ns, r->busy_ns));
    jsonw_knum(j, "communication_overlap", share(r->comm_hidden_ns, r->comm_ns));
    put_ms(j, "late_ms", r->late_ns);
    jsonw_end(j);
}

static void put_together(const struct stats_view *v, const struct totals_rank *sum, struct jsonw *j) {
    const struct totals_skew *skew = &v->totals->skew;
    bool slowest_known = skew->slowest < v->totals->nranks;
    jsonw_kobject(j, "together");
    put_ms(j, "busy_ms", (double)sum->busy_ns);
    put_ms(j, "communication_ms", (double)sum->comm_ns);
    jsonw_knum(j, "communication_share", share(sum->comm_ns, sum->busy_ns));
    jsonw_knum(j, "communication_overlap", share(sum->comm_hidden_ns, sum->comm_ns));
    jsonw_ku64(j, "matched_collectives", skew->matched);
    put_ms(j, "skew_mean_ms", skew->mean_ns);
    put_ms(j, "skew_max_ms", skew->max_ns);
    put_rank_number(j, "slowest_rank", slowest_known ? v->totals->ranks[skew->slowest].rank : TIMELINE_NONE);
    jsonw_kstr(j, "slowest_file", slowest_known ? v->files[skew->slowest] : NULL);
    jsonw_end(j);
}

static void put_ranks(const struct stats_view *v, struct jsonw *j) {
    struct totals_rank sum = { 0 };
    jsonw_karray(j, "ranks");
    for (size_t i = 0; i < v->totals->nranks; i++) {
        const struct totals_rank *r = &v->totals->ranks[i];
        put_rank(r, v->files[i], j);
        sum.busy_ns += r->busy_ns;
        sum.comm_ns += r->comm_ns;
        sum.comm_hidden_ns += r->comm_hidden_ns;
    }
    jsonw_end(j);
    if (v->totals->nranks > 1) put_together(v, &sum, j);
}

void stats_json(const struct stats_view *v, struct strbuf *out) {
    static const struct analysis_totals none;
    struct stats_view with_totals = *v;
    struct jsonw j;
    if (!v->totals) with_totals.totals = &none; /* write the same keys, without rows */
    const struct analysis_totals *t = with_totals.totals;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", "inferprof.stats/1");
    put_counts(&v->sums->events, "events", &j);
    put_kernels(v->sums, &j);
    put_devices(t, &j);
    put_ranges(&t->operators, "ops", &j);
    put_ranges(&t->annotations, "stages", &j);
    put_copies(t->copies, &j);
    put_streams(t, &j);
    put_ranks(&with_totals, &j);
    put_counts(&v->sums->problems, "problems", &j);
    jsonw_end(&j);
    jsonw_finish(&j);
}
