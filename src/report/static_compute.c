#include "report/static_compute.h"

#include <math.h>
#include <stdlib.h>

#include "base/columns.h"
#include "base/die.h"
#include "base/jsonw.h"
#include "base/schema.h"
#include "base/table.h"
#include "base/units.h"
#include "base/util.h"

static void model_json(struct jsonw *j, const struct llm_model *m) {
    jsonw_kobject(j, "model");
    jsonw_kstr(j, "family", m->family);
    jsonw_kstr(j, "model_type", m->model_type);
    jsonw_kstr(j, "architecture", m->architecture);
    jsonw_kstr(j, "dtype", llm_dtype_name(m->dtype));
    jsonw_ku64(j, "parameters", m->params.total);
    jsonw_ku64(j, "active_parameters", m->params.active);
    jsonw_knum(j, "weight_bytes", llm_weight_bytes(m));
    jsonw_knum(j, "kv_bytes_per_token", llm_kv_bytes_per_token(m, LLM_DTYPE_UNKNOWN));
    jsonw_end(j);
}

/* One stage. NaN, NULL: unknown. */
struct static_row {
    const char *name, *parent, *bound;
    double tokens, flops, bytes, floor_ms;
};

static struct static_row *make_rows(const struct static_compute *s) {
    struct static_row *rows = xcalloc(s->nstages + 1, sizeof *rows);
    for (size_t i = 0; i < s->nstages; i++) {
        const struct analyze_work *w = s->stages[i].work;
        const char *bound = isnan(w->flops) ? NULL : llm_cost_bound(&s->costs[i]);
        rows[i] = (struct static_row){ s->stages[i].stage, s->stages[i].parent, bound, w->tokens, w->flops,
                                       w->bytes,           w->floor_ms };
    }
    return rows;
}

static const struct static_row *row_of(const struct column_row *r) { return r->item; }
static void show_path(const struct column_row *r, struct strbuf *out) {
    const char *parent = row_of(r)->parent;
    strbuf_addf(out, "%s%s%s", parent ? parent : "", parent ? "/" : "", row_of(r)->name);
}
static struct column_value get_intensity(const struct column_row *r) {
    return column_f64(llm_intensity(row_of(r)->flops, row_of(r)->bytes));
}

/* clang-format off */
#define R(field) FIELD(struct static_row, field)
static const struct column columns[] = {
    { "name", "stage", COLUMN_TEXT, R(name), .data = JSON, .at = { .md = 10 }, .show = show_path },
    { "parent", .source = R(parent), .data = JSON },
    { "tokens", "tokens", COLUMN_COUNT, R(tokens), .data = JSON, .at = { .md = 20 } },
    { "flops", "FLOPs", COLUMN_FLOPS, R(flops), .data = JSON, .at = { .md = 30 } },
    { "bytes", "bytes", COLUMN_BYTES, R(bytes), .data = JSON, .at = { .md = 40 } },
    { "flops_per_byte", "FLOPs/byte", COLUMN_NUMBER, GET(get_intensity), .data = JSON, .at = { .md = 50 },
      .decimals = 1 },
    { "floor_ms", "roofline (ms)", COLUMN_NUMBER, R(floor_ms), .data = JSON, .at = { .md = 60 },
      .decimals = 3 },
    { "bound", "bound", COLUMN_TEXT, R(bound), .data = JSON, .at = { .md = 70 } },
};
/* clang-format on */
static const struct column_group group = { .columns = columns, .n = COUNTOF(columns) };

static struct column_items items_of(const struct static_compute *s, const struct static_row *rows) {
    return (struct column_items){ rows, s->nstages, sizeof *rows, NULL };
}

void static_compute_json(const struct static_compute *s, struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_STATIC_COMPUTE);
    if (s->model) {
        model_json(&j, s->model);
    } else {
        jsonw_key(&j, "model");
        jsonw_null(&j);
        jsonw_kstr(&j, "unknown_because", s->unknown_because);
    }
    jsonw_kobject(&j, "peak");
    jsonw_kstr(&j, "device", s->peak->device);
    jsonw_kstr(&j, "type", s->peak->type);
    jsonw_kstr(&j, "source", s->peak->source);
    jsonw_knum(&j, "flops_per_s", s->peak->flops_per_s);
    jsonw_knum(&j, "bytes_per_s", s->peak->bytes_per_s);
    jsonw_end(&j);
    struct static_row *rows = make_rows(s);
    columns_json_array("stages", &group, NULL, items_of(s, rows), SIZE_MAX, &j);
    free(rows);
    static_modules_json(s, &j);
    jsonw_end(&j);
    jsonw_finish(&j);
}

static void static_table(const struct static_compute *s, struct strbuf *out) {
    struct static_row *rows = make_rows(s);
    struct table t;
    columns_table(&group, 1, COLUMN_DOC_MARKDOWN, NULL, items_of(s, rows), &t);
    table_markdown(&t, out);
    table_free(&t);
    free(rows);
}

void static_compute_markdown(const struct static_compute *s, struct strbuf *out) {
    const struct llm_model *m = s->model;
    char a[32], b[32], c[32], d[32];
    strbuf_addstr(out, "# Cost of the model\n\n");
    if (m)
        strbuf_addf(
            out,
            "%s: %s parameters (%s active per token), %s of weights as %s, %s of KV cache per token.\n\n",
            s->model_name, units_count((double)m->params.total, a, sizeof a),
            units_count((double)m->params.active, b, sizeof b), units_bytes(llm_weight_bytes(m), c, sizeof c),
            llm_dtype_name(m->dtype), units_bytes(llm_kv_bytes_per_token(m, LLM_DTYPE_UNKNOWN), d, sizeof d));
    else
        strbuf_addf(out, "Not known: %s\n\n", s->unknown_because);
    strbuf_addstr(out, "For one inference of this run (medians over the repeats), with the actual token "
                       "counts. Image stages are inside prefill.\n"
                       "\n");
    static_table(s, out);
    const char *type = s->peak->type && s->peak->type[0] ? s->peak->type : NULL;
    strbuf_addf(out, "\nPeaks of %s: %s FLOP/s%s%s%s, %s/s: %s.\n", s->peak->device,
                units_count(s->peak->flops_per_s, a, sizeof a), type ? " (" : "", type ? type : "",
                type ? ")" : "", units_bytes(s->peak->bytes_per_s, b, sizeof b),
                s->peak->source[0] ? s->peak->source : "not known");
    static_modules_markdown(s, out);
}
