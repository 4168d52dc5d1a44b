/* The breakdown of the model in static_compute: operators, modules, and activations of the recorded
 * request. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/table.h"
#include "base/units.h"
#include "base/util.h"
#include "report/static_compute.h"

#define HOTSPOTS 12

/* An operator, or the sum of a module's operators. For a module, `layers` and output_bytes are the largest of
 * its operators. */
struct static_row {
    const char *stage, *module, *op; /* op: NULL for a module */
    uint64_t layers;                 /* layers that contain it */
    double params;
    double prefill_flops, prefill_bytes; /* all layers, the recorded request */
    double step_flops, step_bytes;       /* all layers, next decode step */
    double output_bytes;                 /* per layer, in prefill */
};

struct static_rows {
    struct static_row *ops, *modules;
    size_t nops, nmodules;
    double prefill_flops, activation_bytes[LLM_STAGES_MAX];
};

/* Prefill and the image stages as one pass. Each operator uses only the counts of its own stage. */
static struct llm_pass prefill_pass(const struct static_compute *s, const struct llm_setup *setup) {
    struct llm_pass p =
        llm_pass_decoder(setup, (uint64_t)s->request.batch, (uint64_t)s->request.prompt_tokens, 0);
    for (size_t i = 0; s->request.image && i < COUNTOF(p.counts.rows); i++)
        if (i != LLM_ROWS_TOKENS && i != LLM_ROWS_HEAD)
            p.counts.rows[i] = s->request.image->rows[i] * s->request.batch;
    for (size_t i = 0; s->request.image && i < COUNTOF(p.counts.pairs); i++)
        p.counts.pairs[i] = s->request.image->pairs[i] * s->request.batch;
    return p;
}

static void add_to_module(struct static_rows *r, const struct static_row *op) {
    struct static_row *m = NULL;
    for (size_t i = 0; i < r->nmodules && !m; i++)
        if (strcmp(r->modules[i].module, op->module) == 0 && r->modules[i].stage == op->stage)
            m = &r->modules[i];
    if (!m) {
        m = &r->modules[r->nmodules++];
        *m = (struct static_row){ .stage = op->stage, .module = op->module };
    }
    m->layers = MAX(m->layers, op->layers);
    m->params += op->params;
    m->prefill_flops += op->prefill_flops;
    m->prefill_bytes += op->prefill_bytes;
    m->step_flops += op->step_flops;
    m->step_bytes += op->step_bytes;
    m->output_bytes = MAX(m->output_bytes, op->output_bytes);
}

static int by_prefill_flops(const void *a, const void *b) {
    const struct static_row *x = a, *y = b;
    if (x->prefill_flops != y->prefill_flops) return x->prefill_flops < y->prefill_flops ? 1 : -1;
    if (x->step_bytes != y->step_bytes) return x->step_bytes < y->step_bytes ? 1 : -1;
    return strcmp(x->module, y->module);
}

/* Numbers that the operator writes per row. */
static double output_width(const struct llm_op *op) {
    if (op->kind == LLM_OP_ATTENTION) return (double)(op->heads * op->v_dim);
    return (double)(op->kind == LLM_OP_NORM ? op->in : op->out * MAX(op->topk, 1));
}

static struct static_rows make_rows(const struct static_compute *s) {
    const struct llm_model *m = s->model;
    struct llm_setup setup = { .peak = { s->peak->flops_per_s, s->peak->bytes_per_s, 0 } };
    struct static_rows r = { .ops = xcalloc(m->nops + 1, sizeof *r.ops),
                             .modules = xcalloc(m->nops + 1, sizeof *r.modules) };
    struct llm_pass prefill = prefill_pass(s, &setup),
                    step = llm_pass_decoder(&setup, (uint64_t)s->request.batch, 1,
                                            (uint64_t)s->request.prompt_tokens);
    for (size_t i = 0; i < m->nops; i++) {
        const struct llm_op *op = &m->ops[i];
        struct llm_cost in_prefill = llm_cost_op(m, &setup, op, &prefill), in_step = { 0 };
        if (op->stage == LLM_STAGE_DECODER) in_step = llm_cost_op(m, &setup, op, &step);
        if (in_prefill.flops + in_prefill.bytes + in_step.bytes == 0) continue;
        struct static_row row = { .stage = m->stages[op->stage],
                                  .module = op->module,
                                  .op = op->name,
                                  .layers = op->count,
                                  .params = (double)llm_op_params(op),
                                  .prefill_flops = in_prefill.flops,
                                  .prefill_bytes = in_prefill.bytes,
                                  .step_flops = in_step.flops,
                                  .step_bytes = in_step.bytes,
                                  .output_bytes = prefill.counts.rows[op->rows] * output_width(op) *
                                                  llm_dtype_bytes(m->dtype) };
        r.prefill_flops += row.prefill_flops;
        r.ops[r.nops++] = row;
        add_to_module(&r, &row);
    }
    for (int i = 0; i < m->nstages; i++) r.activation_bytes[i] = llm_activation_bytes(m, i, &prefill);
    if (r.nops) qsort(r.ops, r.nops, sizeof *r.ops, by_prefill_flops);
    if (r.nmodules) qsort(r.modules, r.nmodules, sizeof *r.modules, by_prefill_flops);
    return r;
}

static void free_rows(struct static_rows *r) {
    free(r->ops);
    free(r->modules);
}

static bool has_request(const struct static_compute *s) {
    return s->model && s->model->decodes && s->request.prompt_tokens >= 1;
}

static void row_json(struct jsonw *j, const struct static_rows *all, const struct static_row *r) {
    double layers = (double)MAX(r->layers, 1);
    jsonw_object(j);
    jsonw_kstr(j, "stage", r->stage);
    jsonw_kstr(j, "module", r->module);
    if (r->op) jsonw_kstr(j, "operator", r->op);
    jsonw_ku64(j, "layers", r->layers);
    jsonw_knum(j, "parameters", r->params);
    jsonw_knum(j, "prefill_flops", r->prefill_flops);
    jsonw_knum(j, "prefill_flops_per_layer", r->prefill_flops / layers);
    jsonw_knum(j, "prefill_bytes", r->prefill_bytes);
    jsonw_knum(j, "share_of_prefill_flops", r->prefill_flops / all->prefill_flops);
    jsonw_knum(j, "decode_step_flops", r->step_flops);
    jsonw_knum(j, "decode_step_bytes", r->step_bytes);
    jsonw_knum(j, "decode_step_bytes_per_layer", r->step_bytes / layers);
    jsonw_knum(j, "activation_bytes_per_layer", r->output_bytes);
    jsonw_end(j);
}

void static_modules_json(const struct static_compute *s, struct jsonw *j) {
    if (!has_request(s)) return;
    struct static_rows r = make_rows(s);
    jsonw_karray(j, "modules");
    for (size_t i = 0; i < r.nmodules; i++) row_json(j, &r, &r.modules[i]);
    jsonw_end(j);
    jsonw_karray(j, "operators");
    for (size_t i = 0; i < r.nops; i++) row_json(j, &r, &r.ops[i]);
    jsonw_end(j);
    jsonw_kobject(j, "peak_activation_bytes");
    for (int i = 0; i < s->model->nstages; i++) jsonw_knum(j, s->model->stages[i], r.activation_bytes[i]);
    jsonw_end(j);
    free_rows(&r);
}

static void rows_table(const struct static_rows *all, const struct static_row *rows, size_t n, bool ops,
                       struct strbuf *out) {
    struct table t;
    char text[32];
    table_init(&t);
    table_column(&t, "stage", TABLE_LEFT);
    table_column(&t, "module", TABLE_LEFT);
    if (ops) table_column(&t, "operator", TABLE_LEFT);
    table_column(&t, "layers", TABLE_RIGHT);
    table_column(&t, "parameters", TABLE_RIGHT);
    table_column(&t, "prefill FLOPs", TABLE_RIGHT);
    table_column(&t, "per layer", TABLE_RIGHT);
    table_column(&t, "share", TABLE_RIGHT);
    table_column(&t, "decode step FLOPs", TABLE_RIGHT);
    table_column(&t, "decode step bytes", TABLE_RIGHT);
    table_column(&t, "activations per layer", TABLE_RIGHT);
    for (size_t i = 0; i < n; i++) {
        const struct static_row *r = &rows[i];
        table_cell(&t, "%s", r->stage);
        table_cell(&t, "%s", r->module);
        if (ops) table_cell(&t, "%s", r->op);
        table_cell(&t, "%llu", (unsigned long long)r->layers);
        table_cell(&t, "%s", units_count(r->params, text, sizeof text));
        table_cell(&t, "%s", units_flops(r->prefill_flops, text, sizeof text));
        table_cell(&t, "%s", units_flops(r->prefill_flops / (double)MAX(r->layers, 1), text, sizeof text));
        table_cell(&t, "%.1f%%", 100 * r->prefill_flops / all->prefill_flops);
        table_cell(&t, "%s", units_flops(r->step_flops, text, sizeof text));
        table_cell(&t, "%s", units_bytes(r->step_bytes, text, sizeof text));
        table_cell(&t, "%s", units_bytes(r->output_bytes, text, sizeof text));
    }
    table_markdown(&t, out);
    table_free(&t);
}

void static_modules_markdown(const struct static_compute *s, struct strbuf *out) {
    if (!has_request(s)) return;
    struct static_rows r = make_rows(s);
    char text[32];
    strbuf_addf(
        out,
        "\n## Modules\n\nOf the recorded request: %.0f prompt tokens, and one decode step after them. "
        "Activations are the output of one layer in prefill.\n\n",
        s->request.prompt_tokens * s->request.batch);
    rows_table(&r, r.modules, r.nmodules, false, out);
    strbuf_addstr(out, "\n## Hotspots\n\nOperators with the most FLOPs in prefill.\n\n");
    rows_table(&r, r.ops, MIN(r.nops, HOTSPOTS), true, out);
    strbuf_addstr(out, "\nLargest activations at one time (estimate): ");
    for (int i = 0; i < s->model->nstages; i++)
        strbuf_addf(out, "%s%s %s", i ? ", " : "", s->model->stages[i],
                    units_bytes(r.activation_bytes[i], text, sizeof text));
    strbuf_addstr(out, ".\n");
    free_rows(&r);
}
