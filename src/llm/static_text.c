/* Writes the result of `inferprof static` as tables, for a terminal or as Markdown. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/strlist.h"
#include "base/text.h"
#include "base/units.h"
#include "base/util.h"
#include "base/wrap.h"
#include "llm/cost_columns.h"
#include "llm/static.h"

#define CELL 32

static void add_heading(struct strbuf *out, struct llm_print how, const char *text) {
    strbuf_addf(out, how.markdown ? "\n## %s\n\n" : "\n%s\n", text);
}

static void finish_table(struct table *t, struct llm_print how, struct strbuf *out) {
    t->text_line_width = how.width;
    if (how.markdown)
        table_markdown(t, out);
    else
        table_text(t, out);
    table_free(t);
}

static void add_table(const struct column_group *groups, size_t ngroups, struct column_items items,
                      struct llm_print how, struct strbuf *out) {
    struct table t;
    columns_table(groups, ngroups, COLUMN_DOC_TERMINAL, NULL, items, &t);
    finish_table(&t, how, out);
}

/* ---- Model */
static void title(const struct llm_static *r, struct llm_print how, struct strbuf *out) {
    const struct llm_model *m = r->model;
    char total[CELL], active[CELL];
    strbuf_addstr(out, how.markdown ? "# " : "");
    strbuf_add_printable(out, m->name, strlen(m->name));
    strbuf_addstr(out, how.markdown ? "\n\n" : "\n");
    strbuf_addf(out, "%s, %s", m->family, llm_dtype_name(m->dtype));
    if (m->quantization) strbuf_addf(out, ", %s", m->quantization);
    strbuf_addf(out, ": %s parameters", units_grouped(m->params.total, total, sizeof total));
    if (m->decodes)
        strbuf_addf(out, ", %s active per token", units_grouped(m->params.active, active, sizeof active));
    strbuf_addch(out, '\n');
    if (m->assumed)
        strbuf_addf(out, "read as %s because of --assume: the config has %s\n", m->assumed,
                    m->architecture ? m->architecture
                    : m->model_type ? m->model_type
                                    : "nothing");
}

static void add_image_plan(const struct llm_static *r, size_t i, struct strbuf *out) {
    const struct llm_image_plan *p = &r->plans[i];
    strbuf_addf(out, "%" PRIu64 "x%" PRIu64 " image as", r->work.images[i].width, r->work.images[i].height);
    for (int v = 0; v < p->nviews; v++)
        strbuf_addf(out, "%s %" PRIu64 " of %" PRIu64 "x%" PRIu64, v ? " and" : "", p->views[v].count,
                    p->views[v].width, p->views[v].height);
    strbuf_addf(out, ": %" PRIu64 " tokens", p->tokens);
}

static void add_work_line(const struct llm_static *r, struct strbuf *out) {
    const struct llm_workload *w = &r->work;
    bool decodes = r->model->decodes;
    strbuf_addf(out, "workload: batch %" PRIu64, w->batch);
    if (r->model->text.family) strbuf_addf(out, ", prompt %" PRIu64 " tokens", w->prompt_tokens);
    for (size_t i = 0; i < w->nimages; i++) {
        strbuf_addstr(out, i ? "; " : decodes ? " (" : ", ");
        add_image_plan(r, i, out);
    }
    if (w->nimages && decodes) strbuf_addch(out, ')');
    if (decodes) strbuf_addf(out, ", %" PRIu64 " new", w->new_tokens);
    strbuf_addch(out, '\n');
}

static void add_device_line(const struct llm_static *r, struct strbuf *out) {
    const struct llm_device *d = r->device;
    char peak[CELL], rate[CELL];
    if (!d->peak_source && !d->bandwidth_source) {
        strbuf_addstr(out, "device: not given, so no times; use --gpu NAME (--gpu list shows all)\n");
        return;
    }
    strbuf_addf(out, "device: %s, %sLOP/s %s dense (%s), %s/s (%s)\n", d->gpu ? d->gpu->name : "custom",
                units_flops(d->peak.flop_per_s, peak, sizeof peak), llm_dtype_name(r->model->dtype),
                d->peak_source ? d->peak_source : "unknown",
                units_bytes(d->peak.bytes_per_s, rate, sizeof rate),
                d->bandwidth_source ? d->bandwidth_source : "unknown");
    if (d->quantized.reason)
        strbuf_addf(out, "quantised weights: %sLOP/s %s dense; %s\n",
                    units_flops(d->quantized.flop_per_s, peak, sizeof peak),
                    llm_dtype_name(d->quantized.type), d->quantized.reason);
}

struct module_row {
    const char *module;
    uint64_t params;
    double share, bytes;
};
static void show_share(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%.1f%%", 100 * ((const struct module_row *)r->item)->share);
}
/* clang-format off */
#define M(field) FIELD(struct module_row, field)
#define AT(position) .at = { .terminal = position }
static const struct column module_columns[] = {
    { "module", "module", COLUMN_TEXT, M(module), AT(10) },
    { "parameters", "parameters", COLUMN_COUNT, M(params), AT(20) },
    { "share", "share", COLUMN_PERCENT, M(share), AT(30), .show = show_share },
    { "bytes", "bytes", COLUMN_BYTES, M(bytes), AT(40), .help = "size of the weights" },
};
/* clang-format on */
static const struct column_group module_group = { .columns = module_columns, .n = COUNTOF(module_columns) };

static void params_table(const struct llm_static *r, struct llm_print how, struct strbuf *out) {
    const struct llm_model *m = r->model;
    struct module_row *rows = xcalloc(m->nops + 1, sizeof *rows);
    size_t n = 0;
    for (size_t i = 0; i < m->nops; i++) {
        const char *module = m->ops[i].module;
        double bytes = 0;
        bool first = true;
        for (size_t k = 0; k < m->nops; k++) {
            if (strcmp(m->ops[k].module, module) != 0) continue;
            if (k < i) first = false;
            bytes += llm_op_weight_bytes(&m->ops[k]);
        }
        uint64_t count = llm_module_params(m, module);
        if (first && count)
            rows[n++] = (struct module_row){ module, count, (double)count / (double)m->params.total, bytes };
    }
    add_table(&module_group, 1, (struct column_items){ rows, n, sizeof *rows }, how, out);
    free(rows);
}

/* ---- Costs */
#define STAGE_ROWS_MAX (LLM_STAGES_MAX + 4)
struct stage_rows {
    struct llm_cost_row v[STAGE_ROWS_MAX];
    char labels[STAGE_ROWS_MAX][64];
    size_t n;
};

static void add_stage(struct stage_rows *rows, const struct llm_cost *c, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void add_stage(struct stage_rows *rows, const struct llm_cost *c, const char *fmt, ...) {
    char *label = rows->labels[rows->n];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(label, sizeof rows->labels[0], fmt, ap);
    va_end(ap);
    rows->v[rows->n++] = (struct llm_cost_row){ .label = label, .cost = *c };
}

static void stages_table(const struct llm_static *r, struct llm_print how, struct strbuf *out) {
    const struct column_group groups[] = { llm_stage_columns, llm_cost_columns };
    const struct llm_model *m = r->model;
    bool images = r->work.nimages > 0;
    struct stage_rows rows = { 0 };
    if (m->decodes) add_stage(&rows, &r->prefill, images ? "prefill (all below)" : "prefill");
    for (int s = 1; s < m->nstages && images; s++)
        add_stage(&rows, &r->vision[s], "%s%s", m->decodes ? "  " : "", m->stages[s]);
    if (m->decodes && images) add_stage(&rows, &r->decoder, "  decoder");
    if (!m->decodes && m->text.family) add_stage(&rows, &r->decoder, "text");
    if (m->decodes) add_stage(&rows, &r->decode, "decode step at %" PRIu64, r->work.context);
    if (m->decodes && r->decode_steps)
        add_stage(&rows, &r->generation, "decode, %" PRIu64 " steps", r->decode_steps);
    add_table(groups, COUNTOF(groups), (struct column_items){ rows.v, rows.n, sizeof *rows.v }, how, out);
}

static void add_times(const struct llm_static *r, double first_s, double step_s, double rest_s,
                      struct strbuf *out) {
    char a[CELL], b[CELL];
    strbuf_addf(out, "first token %s, then %s tokens/s", units_duration_ns(first_s * 1e9, a, sizeof a),
                units_count((double)r->work.batch / step_s, b, sizeof b));
    if (r->decode_steps)
        strbuf_addf(out, "; all %" PRIu64 " tokens %s", r->work.new_tokens,
                    units_duration_ns((first_s + rest_s) * 1e9, a, sizeof a));
    strbuf_addch(out, '\n');
}

static void add_time_lines(const struct llm_static *r, const char *gap, struct strbuf *out) {
    if (!r->model->decodes || isnan(r->decode.floor_s)) return;
    strbuf_addstr(out, "at the roofline: ");
    add_times(r, r->prefill.floor_s, r->decode.floor_s, r->generation.floor_s, out);
    strbuf_addf(out, "%shard bound: ", gap);
    add_times(r, llm_cost_hard_bound_s(&r->prefill), llm_cost_hard_bound_s(&r->decode),
              llm_cost_hard_bound_s(&r->generation), out);
}

struct memory_row {
    const char *name;
    double bytes;
};
static const struct column memory_columns[] = {
    { "name", "in memory", COLUMN_TEXT, FIELD(struct memory_row, name), AT(10) },
    { "bytes", "bytes", COLUMN_BYTES, FIELD(struct memory_row, bytes), AT(20) },
};
static const struct column_group memory_group = { .columns = memory_columns, .n = COUNTOF(memory_columns) };

static void add_memory(const struct llm_static *r, struct llm_print how, struct strbuf *out) {
    char a[CELL], b[CELL], cache[80];
    struct memory_row rows[4] = { { "weights", r->weight_bytes } };
    size_t n = 1;
    snprintf(cache, sizeof cache, "KV cache at the end (%s per token)",
             units_bytes(r->kv_bytes_per_token, a, sizeof a));
    if (r->model->decodes) rows[n++] = (struct memory_row){ cache, r->kv_bytes_at_end };
    rows[n++] = (struct memory_row){ "activations, peak (estimate)", r->activation_bytes };
    rows[n++] = (struct memory_row){ "together", r->memory_bytes };
    add_table(&memory_group, 1, (struct column_items){ rows, n, sizeof rows[0] }, how, out);
    int fits = llm_static_fits(r);
    if (fits >= 0)
        strbuf_addf(out, "%s%s the %s of %s\n", how.markdown ? "\n" : "", fits ? "fits" : "does NOT fit",
                    units_bytes(r->device->gpu->memory_gb * 1e9, b, sizeof b), r->device->gpu->name);
}

static void operator_rows(const struct llm_static *r, int stage, const struct llm_pass *pass,
                          const char *name, struct llm_print how, struct strbuf *out) {
    const struct column_group groups[] = { llm_operator_columns, llm_cost_columns };
    struct llm_cost_row *rows = xcalloc(r->model->nops + 1, sizeof *rows);
    struct strlist labels = { 0 };
    size_t n = 0;
    for (size_t i = 0; i < r->model->nops; i++) {
        const struct llm_op *op = &r->model->ops[i];
        struct llm_cost c = llm_cost_op(r->model, &r->setup, op, pass);
        if (op->stage != stage || (c.flops == 0 && c.bytes == 0)) continue;
        strlist_add(&labels, "%s.%s", op->module, op->name);
        rows[n++] = (struct llm_cost_row){ .label = labels.v[labels.n - 1], .layers = op->count, .cost = c };
    }
    if (n) {
        add_heading(out, how, name);
        add_table(groups, COUNTOF(groups), (struct column_items){ rows, n, sizeof *rows }, how, out);
    }
    strlist_free(&labels);
    free(rows);
}

static void operator_tables(const struct llm_static *r, struct llm_print how, struct strbuf *out) {
    const struct llm_model *m = r->model;
    struct llm_pass images = { .counts = r->counts };
    char name[64];
    for (int s = 1; s < m->nstages; s++) {
        snprintf(name, sizeof name, "Operators of %s", m->stages[s]);
        operator_rows(r, s, &images, name, how, out);
    }
    operator_rows(r, 0, m->decodes ? &r->prefill_pass : &images,
                  m->decodes ? "Operators of prefill" : "Operators of text", how, out);
    if (m->decodes) operator_rows(r, 0, &r->decode_pass, "Operators of a decode step", how, out);
}

static void add_notes(const char *name, char *const *v, size_t n, struct llm_print how, struct strbuf *out) {
    if (n) add_heading(out, how, name);
    for (size_t i = 0; i < n; i++) {
        strbuf_addstr(out, how.markdown ? "- " : "  ");
        wrap_text(out, v[i], 2, how.markdown ? 0 : how.width, 2);
    }
}

static void add_files(const struct llm_static *r, struct strbuf *out) {
    char n[CELL], b[CELL];
    if (!r->files.found) return;
    strbuf_addf(out, "weights on disk: %" PRIu64 " tensors, %s parameters, %s:", r->files.tensors,
                units_grouped(r->files.params, n, sizeof n), units_bytes(r->files.bytes, b, sizeof b));
    for (int t = 0; t < LLM_DTYPES; t++)
        if (r->files.by_dtype[t])
            strbuf_addf(out, " %s %.1f%%", llm_dtype_name((enum llm_dtype)t),
                        100 * (double)r->files.by_dtype[t] / fmax(1, (double)r->files.params));
    for (uint32_t t = 0; t < GGML_TYPES_END; t++)
        if (r->files.by_ggml[t])
            strbuf_addf(out, " %s %.1f%%", ggml_type_info(t).name,
                        100 * (double)r->files.by_ggml[t] / fmax(1, (double)r->files.params));
    strbuf_addch(out, '\n');
}

static void add_layer_row(const struct llm_static *r, struct table *t, uint32_t from, uint32_t to) {
    double sum = 0;
    for (uint32_t k = 0; k < GGML_TYPES_END; k++) sum += r->files.layer_bytes[from][k];
    if (from == 0)
        table_cell(t, "none");
    else if (from == to)
        table_cell(t, "%u", from - 1);
    else
        table_cell(t, "%u to %u, each", from - 1, to - 1);
    table_cell(t, "%s", text_bytes(sum).s);
    for (uint32_t k = 0; k < GGML_TYPES_END; k++) {
        if (!r->files.by_ggml[k]) continue;
        if (r->files.layer_bytes[from][k] > 0)
            table_cell(t, "%s", text_bytes(r->files.layer_bytes[from][k]).s);
        else
            table_cell(t, "\xe2\x80\x93");
    }
}

/* Writes one row per run of consecutive layers that have the same bytes of every type. */
static void add_layers(const struct llm_static *r, struct llm_print how, struct strbuf *out) {
    const size_t row_bytes = sizeof r->files.layer_bytes[0];
    struct table t;
    if (!r->files.layer_bytes) return;
    add_heading(out, how, "Weights by layer and type");
    table_init(&t);
    table_column(&t, "layer", TABLE_LEFT);
    table_column(&t, "bytes", TABLE_RIGHT);
    for (uint32_t k = 0; k < GGML_TYPES_END; k++)
        if (r->files.by_ggml[k]) table_column(&t, ggml_type_info(k).name, TABLE_RIGHT);
    add_layer_row(r, &t, 0, 0);
    for (uint32_t i = 1, end; i <= r->files.layers; i = end) {
        end = i + 1;
        while (end <= r->files.layers &&
               memcmp(r->files.layer_bytes[i], r->files.layer_bytes[end], row_bytes) == 0)
            end++;
        add_layer_row(r, &t, i, end - 1);
    }
    finish_table(&t, how, out);
}

void llm_static_text(const struct llm_static *r, struct llm_print how, bool operators, struct strbuf *out) {
    const char *gap = how.markdown ? "\n" : "";
    title(r, how, out);
    strbuf_addstr(out, gap);
    add_work_line(r, out);
    strbuf_addstr(out, gap);
    add_device_line(r, out);
    if (r->files.found) {
        strbuf_addstr(out, gap);
        add_files(r, out);
    }
    add_heading(out, how, "Parameters");
    params_table(r, how, out);
    add_layers(r, how, out);
    add_heading(out, how, "Cost");
    stages_table(r, how, out);
    strbuf_addstr(out, gap);
    add_time_lines(r, gap, out);
    add_heading(out, how, "Memory");
    add_memory(r, how, out);
    if (operators) operator_tables(r, how, out);
    add_notes("Assumptions", r->assumptions, r->nassumptions, how, out);
    add_notes("Warnings", r->warnings, r->nwarnings, how, out);
}
