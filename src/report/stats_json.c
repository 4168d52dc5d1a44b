#include <math.h>

#include "base/jsonw.h"
#include "base/schema.h"
#include "ranks/sums.h"
#include "report/stats_columns.h"

static void put_ms(struct jsonw *j, const char *key, double ns) { jsonw_knum(j, key, ns / 1e6); }

static void put_counts(const struct sums_counts *counts, const char *key, struct jsonw *j) {
    jsonw_kobject(j, key);
    for (size_t i = 0; i < counts->n; i++) jsonw_ku64(j, counts->v[i].name, counts->v[i].count);
    jsonw_end(j);
}

static bool was_called(const void *item) { return ((const struct stats_kernel *)item)->calls > 0; }

static void put_kernels(const struct sums *s, const struct stats_rows *r, struct jsonw *j) {
    struct column_items items = { r->kernels, r->nkernels, sizeof *r->kernels, was_called };
    jsonw_kobject(j, "kernels");
    jsonw_ku64(j, "count", s->kernel_calls);
    put_ms(j, "total_ms", (double)s->kernel_ns);
    columns_json_array("by_name", &stats_kernel_columns, NULL, items, SIZE_MAX, j);
    jsonw_end(j);
}

static void put_devices(const struct stats_rows *r, struct jsonw *j) {
    jsonw_kobject(j, "gpu");
    for (size_t i = 0; i < r->ndevices; i++) {
        jsonw_kobject(j, r->devices[i].key);
        columns_json(&stats_device_columns[0], &(struct column_row){ NULL, &r->devices[i], i }, j);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void put_ranges(const struct stats_range *v, size_t n, const struct column_group *columns,
                       const char *key, struct jsonw *j) {
    struct column_items items = { v, n, sizeof *v, NULL };
    jsonw_kobject(j, key);
    columns_json_array("by_name", columns, NULL, items, SIZE_MAX, j);
    jsonw_end(j);
}

static bool was_copied(const void *item) { return ((const struct stats_copy *)item)->count > 0; }

static void put_copies(const struct stats_rows *r, struct jsonw *j) {
    struct column_items items = { r->copies, r->ncopies, sizeof *r->copies, was_copied };
    jsonw_kobject(j, "copies");
    columns_json(&stats_copy_columns, &(struct column_row){ NULL, &r->all_copies, 0 }, j);
    columns_json_array("by_kind", &stats_copy_kind_columns, NULL, items, SIZE_MAX, j);
    jsonw_end(j);
}

static void put_streams(const struct stats_rows *r, struct jsonw *j) {
    jsonw_karray(j, "streams");
    for (size_t i = 0; i < r->nstreams; i++) {
        jsonw_object(j);
        if (r->nranks > 1) jsonw_ku64(j, "file", r->streams[i].file);
        columns_json(&stats_stream_columns, &(struct column_row){ NULL, &r->streams[i], i }, j);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void put_rank_number(struct jsonw *j, const char *key, uint32_t v) {
    jsonw_key(j, key);
    if (v == TIMELINE_NONE)
        jsonw_null(j);
    else
        jsonw_u64(j, v);
}

static void put_together(const struct stats_view *v, struct jsonw *j) {
    const struct totals_rank *sum = &v->totals->together;
    struct rank_skew skew = { .mean_ns = NAN, .max_ns = NAN };
    size_t slowest = v->totals->slowest_rank;
    bool slowest_known = slowest < v->totals->nranks;
    if (v->job) skew = rank_job_skew(v->job);
    jsonw_kobject(j, "together");
    put_ms(j, "busy_ms", (double)sum->busy_ns);
    put_ms(j, "communication_ms", (double)sum->comm_ns);
    jsonw_knum(j, "communication_share", sum->comm_share);
    jsonw_knum(j, "communication_overlap", sum->comm_overlap);
    jsonw_ku64(j, "matched_collectives", skew.matched);
    put_ms(j, "skew_mean_ms", skew.mean_ns);
    put_ms(j, "skew_max_ms", skew.max_ns);
    put_rank_number(j, "slowest_rank", slowest_known ? v->totals->ranks[slowest].rank : TIMELINE_NONE);
    jsonw_kstr(j, "slowest_file", slowest_known ? v->files[slowest] : NULL);
    jsonw_end(j);
}

static void put_ranks(const struct stats_view *v, const struct stats_rows *r, struct jsonw *j) {
    struct column_items items = { r->ranks, r->nranks, sizeof *r->ranks, NULL };
    columns_json_array("ranks", &stats_rank_columns, NULL, items, SIZE_MAX, j);
    if (r->nranks > 1) put_together(v, j);
}

void stats_json(const struct stats_view *v, struct strbuf *out) {
    struct stats_rows r;
    struct jsonw j;
    stats_rows_make(v, &r);
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_STATS);
    put_counts(&v->sums->events, "events", &j);
    put_kernels(v->sums, &r, &j);
    put_devices(&r, &j);
    put_ranges(r.operators, r.noperators, &stats_operator_columns, "ops", &j);
    put_ranges(r.annotations, r.nannotations, &stats_annotation_columns, "stages", &j);
    put_copies(&r, &j);
    put_streams(&r, &j);
    put_ranks(v, &r, &j);
    put_counts(&v->sums->problems, "problems", &j);
    jsonw_end(&j);
    jsonw_finish(&j);
    stats_rows_free(&r);
}
