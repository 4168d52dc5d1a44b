/* Memory tables: peaks of the trace and of each stage, by kind, and the series over time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/text.h"
#include "base/util.h"
#include "base/vec.h"
#include "report/rows.h"

struct memory_row {
    const char *device, *stage;
    const struct analysis_memory_point *point;
};

static const struct memory_row *row_of(const struct column_row *r) { return r->item; }

static struct column_value get_total(const struct column_row *r) {
    return column_f64(row_of(r)->point->total);
}

/* Unknown if no series has memory of this kind. The column is omitted then. */
static struct column_value kind_value(const struct column_row *r, enum trace_memory_kind kind) {
    bool any = false;
    for (size_t i = 0; i < view_of(r)->a->nmemories; i++) {
        const struct analysis_memory *m = &view_of(r)->a->memories[i];
        for (size_t k = 0; k < m->n && !any; k++) any = m->series[k].bytes[kind] > 0;
    }
    return column_f64(any ? row_of(r)->point->bytes[kind] : NAN);
}
static struct column_value get_weights(const struct column_row *r) {
    return kind_value(r, TRACE_MEMORY_WEIGHTS);
}
static struct column_value get_cache(const struct column_row *r) {
    return kind_value(r, TRACE_MEMORY_KV_CACHE);
}
static struct column_value get_activations(const struct column_row *r) {
    return kind_value(r, TRACE_MEMORY_ACTIVATIONS);
}
static struct column_value get_workspace(const struct column_row *r) {
    return kind_value(r, TRACE_MEMORY_WORKSPACE);
}
static struct column_value get_other(const struct column_row *r) { return kind_value(r, TRACE_MEMORY_OTHER); }
static struct column_value get_time(const struct column_row *r) {
    return column_f64((double)(int64_t)(row_of(r)->point->time_ns - view_of(r)->a->timeline->start_ns));
}

#define M(field) FIELD(struct memory_row, field)
/* clang-format off */
static const struct column memory_columns[] = {
    { "device", "device", COLUMN_TEXT, M(device), .data = CSV | JSON, .at = { .md = 10 } },
    { "stage", "stage", COLUMN_TEXT, M(stage), .data = CSV | JSON, .at = { .md = 20 } },
    { "time_ns", "at ms", COLUMN_NS_MS, GET(get_time), .data = CSV | JSON, .at = { .md = 30 },
      .help = "since the start of the trace" },
    { "bytes", "peak", COLUMN_BYTES, GET(get_total), .data = CSV | JSON, .at = { .md = 40 } },
    { "weights_bytes", "weights", COLUMN_BYTES, GET(get_weights), .data = CSV | JSON, .at = { .md = 50 } },
    { "kv_cache_bytes", "KV cache", COLUMN_BYTES, GET(get_cache), .data = CSV | JSON, .at = { .md = 60 } },
    { "activations_bytes", "activations", COLUMN_BYTES, GET(get_activations), .data = CSV | JSON,
      .at = { .md = 70 } },
    { "workspace_bytes", "workspace", COLUMN_BYTES, GET(get_workspace), .data = CSV | JSON,
      .at = { .md = 80 } },
    { "other_bytes", "other", COLUMN_BYTES, GET(get_other), .data = CSV | JSON, .at = { .md = 90 } },
};
/* clang-format on */
static const struct column_group memory_group = { .columns = memory_columns, .n = COUNTOF(memory_columns) };

const char *rows_memory_device(const struct view *v, const struct analysis_memory *m) {
    if (m->device == ANALYSIS_NONE) return "host memory";
    const char *name = timeline_text(v->a->timeline, v->a->timeline->devices[m->device].name);
    return *name ? name : "device";
}

struct memory_rows {
    struct memory_row *v;
    size_t n, cap;
};

/* Per device: the peak of the trace and the peaks of its stages. */
static struct memory_rows peak_rows(const struct view *v) {
    struct memory_rows rows = { 0 };
    for (size_t i = 0; v->a && i < v->a->nmemories; i++) {
        const struct analysis_memory *m = &v->a->memories[i];
        const char *device = rows_memory_device(v, m);
        vec_push(&rows, ((struct memory_row){ device, "whole trace", &m->peak }));
        for (size_t s = 0; s < v->a->nstages; s++)
            if (!v->a->stages[s].outside && isfinite(m->stages[s].total))
                vec_push(&rows, ((struct memory_row){ device, v->a->stages[s].path, &m->stages[s] }));
    }
    return rows;
}

void rows_memory_md(const struct view *v, struct table *t) {
    struct memory_rows rows = peak_rows(v);
    view_table(&memory_group, 1, COLUMN_DOC_MARKDOWN, v,
               (struct column_items){ rows.v, rows.n, sizeof *rows.v }, t);
    rows_drop_unknown(t);
    free(rows.v);
}

void rows_memory_json(const struct view *v, struct jsonw *j) {
    struct memory_rows rows = peak_rows(v);
    columns_json_array("memory", &memory_group, v, (struct column_items){ rows.v, rows.n, sizeof *rows.v },
                       SIZE_MAX, j);
    free(rows.v);
}

void rows_memory_csv(const struct view *v, struct table *t) {
    struct memory_rows rows = { 0 };
    for (size_t i = 0; v->a && i < v->a->nmemories; i++)
        for (size_t k = 0; k < v->a->memories[i].n; k++)
            vec_push(&rows, ((struct memory_row){ rows_memory_device(v, &v->a->memories[i]), NULL,
                                                  &v->a->memories[i].series[k] }));
    view_table(&memory_group, 1, COLUMN_DOC_CSV, v, (struct column_items){ rows.v, rows.n, sizeof *rows.v },
               t);
    free(rows.v);
}
