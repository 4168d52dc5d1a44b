/* The breakdown of the model in static_compute: operators, modules, and activations of the recorded
 * request. */
#include <math.h>

#include "base/columns.h"
#include "base/text.h"
#include "base/util.h"
#include "llm/modules.h"
#include "report/static_compute.h"

#define HOTSPOTS 12

static const struct llm_module *row_of(const struct column_row *r) { return r->item; }
static void show_layers(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%llu", (unsigned long long)row_of(r)->layers);
}
static void show_share(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%.1f%%", 100 * row_of(r)->prefill_share);
}

/* clang-format off */
#define M(field) FIELD(struct llm_module, field)
#define AT(position) .data = JSON, .at = { .md = position }
static const struct column name_columns[] = {
    { "stage", "stage", COLUMN_TEXT, M(stage), AT(10) },
    { "module", "module", COLUMN_TEXT, M(module), AT(20) },
};
static const struct column operator_columns[] = {
    { "operator", "operator", COLUMN_TEXT, M(op), AT(30) },
};
static const struct column cost_columns[] = {
    { "layers", "layers", COLUMN_COUNT, M(layers), AT(40), .show = show_layers },
    { "parameters", "parameters", COLUMN_UNITS, M(params), AT(50) },
    { "prefill_flops", "prefill FLOPs", COLUMN_FLOPS, M(prefill_flops), AT(60) },
    { "prefill_flops_per_layer", "per layer", COLUMN_FLOPS, M(prefill_layer_flops), AT(70) },
    { "prefill_bytes", .source = M(prefill_bytes), .data = JSON },
    { "share_of_prefill_flops", "share", COLUMN_PERCENT, M(prefill_share), AT(80), .show = show_share },
    { "decode_step_flops", "decode step FLOPs", COLUMN_FLOPS, M(step_flops), AT(90) },
    { "decode_step_bytes", "decode step bytes", COLUMN_BYTES, M(step_bytes), AT(100) },
    { "decode_step_bytes_per_layer", .source = M(step_layer_bytes), .data = JSON },
    { "activation_bytes_per_layer", "activations per layer", COLUMN_BYTES, M(activation_bytes), AT(110) },
};
/* clang-format on */
enum { NAMES, OPERATOR, COSTS, GROUPS };
static bool has_operators(const void *with_operators) { return with_operators != NULL; }
static const struct column_group groups[GROUPS] = {
    [NAMES] = { .columns = name_columns, .n = COUNTOF(name_columns) },
    /* the context is not NULL for tables of operators */
    [OPERATOR] = { .columns = operator_columns, .n = COUNTOF(operator_columns), .exists = has_operators },
    [COSTS] = { .columns = cost_columns, .n = COUNTOF(cost_columns) },
};

static struct llm_modules find_rows(const struct static_compute *s) {
    struct llm_modules r;
    struct llm_peak peak = { s->peak->flops_per_s, s->peak->bytes_per_s, 0 };
    llm_modules_find(&r, s->model, &peak, &s->request);
    return r;
}

static bool has_request(const struct static_compute *s) {
    return s->model && s->model->decodes && s->request.prompt_tokens >= 1;
}

static void write_rows(const char *key, const struct llm_module *v, size_t n, bool operators,
                       struct jsonw *j) {
    jsonw_karray(j, key);
    for (size_t i = 0; i < n; i++) {
        struct column_row row = { .item = &v[i], .index = i };
        jsonw_object(j);
        columns_json(&groups[NAMES], &row, j);
        if (operators) columns_json(&groups[OPERATOR], &row, j);
        columns_json(&groups[COSTS], &row, j);
        jsonw_end(j);
    }
    jsonw_end(j);
}

void static_modules_json(const struct static_compute *s, struct jsonw *j) {
    if (!has_request(s)) return;
    struct llm_modules r = find_rows(s);
    write_rows("modules", r.modules, r.nmodules, false, j);
    write_rows("operators", r.ops, r.nops, true, j);
    jsonw_kobject(j, "peak_activation_bytes");
    for (int i = 0; i < s->model->nstages; i++) jsonw_knum(j, s->model->stages[i], r.activation_bytes[i]);
    jsonw_end(j);
    llm_modules_free(&r);
}

static void rows_table(const struct llm_module *rows, size_t n, bool operators, struct strbuf *out) {
    struct table t;
    columns_table(groups, GROUPS, COLUMN_DOC_MARKDOWN, operators ? rows : NULL,
                  (struct column_items){ rows, n, sizeof *rows }, &t);
    table_markdown(&t, out);
    table_free(&t);
}

void static_modules_markdown(const struct static_compute *s, struct strbuf *out) {
    if (!has_request(s)) return;
    struct llm_modules r = find_rows(s);
    strbuf_addf(
        out,
        "\n## Modules\n\nOf the recorded request: %.0f prompt tokens, and one decode step after them. "
        "Activations are the output of one layer in prefill.\n\n",
        s->request.prompt_tokens * s->request.batch);
    rows_table(r.modules, r.nmodules, false, out);
    strbuf_addstr(out, "\n## Hotspots\n\nOperators with the most FLOPs in prefill.\n\n");
    rows_table(r.ops, MIN(r.nops, HOTSPOTS), true, out);
    strbuf_addstr(out, "\nLargest activations at one time (estimate): ");
    for (int i = 0; i < s->model->nstages; i++)
        strbuf_addf(out, "%s%s %s", i ? ", " : "", s->model->stages[i], text_bytes(r.activation_bytes[i]).s);
    strbuf_addstr(out, ".\n");
    llm_modules_free(&r);
}
