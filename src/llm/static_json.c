/* Writes the result of `inferprof static` as JSON. Field names are part of the interface: docs/static.md. */
#include <math.h>
#include <string.h>

#include "base/schema.h"
#include "base/util.h"
#include "llm/cost_columns.h"
#include "llm/gpu_columns.h"
#include "llm/static.h"

#define MS 1e3

static void write_strings(struct jsonw *j, const char *key, char *const *v, size_t n) {
    jsonw_karray(j, key);
    for (size_t i = 0; i < n; i++) jsonw_str(j, v[i]);
    jsonw_end(j);
}

static bool first_of_module(const struct llm_model *m, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (strcmp(m->ops[k].module, m->ops[i].module) == 0) return false;
    return true;
}

/* ---- Model */
static void model(const struct llm_static *r, struct jsonw *j) {
    const struct llm_model *m = r->model;
    jsonw_kobject(j, "model");
    jsonw_kstr(j, "name", m->name);
    jsonw_kstr(j, "family", m->family);
    jsonw_kstr(j, "dtype", llm_dtype_name(m->dtype));
    jsonw_kstr(j, "model_type", m->model_type);
    jsonw_kstr(j, "architecture", m->architecture);
    jsonw_kstr(j, "assumed", m->assumed);
    jsonw_kstr(j, "quantization", m->quantization);
    if (m->mtp.layers) {
        jsonw_kobject(j, "multi_token_prediction");
        jsonw_ku64(j, "layers", m->mtp.layers);
        jsonw_ku64(j, "params", m->mtp.params);
        jsonw_knum(j, "bytes", m->mtp.bytes);
        jsonw_end(j);
    }
    if (m->decodes) {
        jsonw_ku64(j, "layers", m->text.layers);
        jsonw_ku64(j, "hidden_size", m->text.hidden);
        jsonw_ku64(j, "heads", m->text.heads);
        jsonw_ku64(j, "kv_heads", m->text.kv_heads);
        jsonw_ku64(j, "head_dim", m->text.head_dim);
        jsonw_ku64(j, "vocab_size", m->text.vocab);
        jsonw_ku64_known(j, "experts", m->text.experts);
        jsonw_ku64_known(j, "experts_per_token", m->text.experts_per_token);
    }
    jsonw_end(j);
}

/* Writes bytes by type for each layer; layer null: tensors outside of layers. */
static void write_layers(const struct llm_static *r, struct jsonw *j) {
    jsonw_karray(j, "layers");
    for (uint32_t i = 0; i <= r->files.layers; i++) {
        double sum = 0;
        jsonw_object(j);
        if (i)
            jsonw_ku64(j, "layer", i - 1);
        else
            jsonw_kstr(j, "layer", NULL);
        jsonw_kobject(j, "bytes_by_type");
        for (uint32_t t = 0; t < GGML_TYPES_END; t++) {
            sum += r->files.layer_bytes[i][t];
            if (r->files.layer_bytes[i][t] > 0)
                jsonw_knum(j, ggml_type_info(t).name, r->files.layer_bytes[i][t]);
        }
        jsonw_end(j);
        jsonw_knum(j, "bytes", sum);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_files(const struct llm_static *r, struct jsonw *j) {
    if (!r->files.found) return;
    jsonw_kobject(j, "files");
    jsonw_ku64(j, "tensors", r->files.tensors);
    jsonw_ku64(j, "total", r->files.params);
    jsonw_knum(j, "bytes", r->files.bytes);
    jsonw_kobject(j, "by_dtype");
    for (int t = 0; t < LLM_DTYPES; t++)
        if (r->files.by_dtype[t]) jsonw_ku64(j, llm_dtype_name((enum llm_dtype)t), r->files.by_dtype[t]);
    for (uint32_t t = 0; t < GGML_TYPES_END; t++)
        if (r->files.by_ggml[t]) jsonw_ku64(j, ggml_type_info(t).name, r->files.by_ggml[t]);
    jsonw_end(j);
    if (r->files.layer_bytes) write_layers(r, j);
    jsonw_end(j);
}

static void write_params(const struct llm_static *r, struct jsonw *j) {
    const struct llm_model *m = r->model;
    jsonw_kobject(j, "params");
    jsonw_ku64(j, "total", m->params.total);
    jsonw_ku64(j, "active", m->decodes ? m->params.active : m->params.total);
    jsonw_ku64(j, "active_without_head", m->params.active_inner);
    jsonw_ku64(j, "embedding", m->params.embedding);
    jsonw_ku64(j, "lm_head", m->params.head);
    jsonw_kobject(j, "by_module");
    for (size_t i = 0; i < m->nops; i++)
        if (first_of_module(m, i)) jsonw_ku64(j, m->ops[i].module, llm_module_params(m, m->ops[i].module));
    jsonw_end(j);
    write_files(r, j);
    jsonw_end(j);
}

/* ---- Workload and device */
static void image(const struct llm_static *r, size_t i, struct jsonw *j) {
    const struct llm_image_plan *p = &r->plans[i];
    jsonw_object(j);
    jsonw_ku64(j, "width", r->work.images[i].width);
    jsonw_ku64(j, "height", r->work.images[i].height);
    jsonw_ku64(j, "tokens", p->tokens);
    jsonw_ku64_known(j, "grid_width", p->grid_width);
    jsonw_ku64_known(j, "grid_height", p->grid_height);
    jsonw_karray(j, "views");
    for (int v = 0; v < p->nviews; v++) {
        jsonw_object(j);
        jsonw_ku64(j, "width", p->views[v].width);
        jsonw_ku64(j, "height", p->views[v].height);
        jsonw_ku64(j, "count", p->views[v].count);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

static void write_workload(const struct llm_static *r, struct jsonw *j) {
    const struct llm_workload *w = &r->work;
    jsonw_kobject(j, "workload");
    jsonw_ku64(j, "batch", w->batch);
    jsonw_ku64(j, "prompt_tokens", w->prompt_tokens);
    jsonw_ku64(j, "text_tokens", w->text_tokens);
    jsonw_ku64(j, "image_tokens", r->image_tokens);
    jsonw_ku64(j, "new_tokens", w->new_tokens);
    jsonw_ku64(j, "context", w->context);
    jsonw_kstr(j, "dtype", llm_dtype_name(r->model->dtype));
    jsonw_kstr(j, "kv_dtype", llm_dtype_name(llm_kv_dtype(r->model, w->kv)));
    jsonw_kstr(j, "lm_head", w->head_all ? "all" : "last");
    jsonw_karray(j, "images");
    for (size_t i = 0; i < w->nimages; i++) image(r, i, j);
    jsonw_end(j);
    jsonw_end(j);
}

static void write_device(const struct llm_static *r, struct jsonw *j) {
    const struct llm_device *d = r->device;
    jsonw_kobject(j, "gpu");
    jsonw_kstr(j, "name", d->gpu ? d->gpu->name : NULL);
    jsonw_knum(j, "peak_tflops", d->peak.flop_per_s / 1e12);
    jsonw_kstr(j, "peak_source", d->peak_source);
    jsonw_knum(j, "peak_gbps", d->peak.bytes_per_s / 1e9);
    jsonw_kstr(j, "bandwidth_source", d->bandwidth_source);
    if (d->quantized.reason) {
        jsonw_knum(j, "quantized_peak_tflops", d->quantized.flop_per_s / 1e12);
        jsonw_kstr(j, "quantized_peak_type", llm_dtype_name(d->quantized.type));
        jsonw_kstr(j, "quantized_peak_reason", d->quantized.reason);
    }
    if (d->gpu) columns_json(&llm_gpu_columns, &(struct column_row){ .item = d->gpu }, j);
    jsonw_end(j);
}

/* ---- Costs */
static void write_cost_fields(const struct llm_cost *c, struct jsonw *j) {
    struct llm_cost_row item = { .cost = *c };
    struct column_row row = { .item = &item };
    columns_json(&llm_cost_columns, &row, j);
    columns_json(&llm_cost_bound_columns, &row, j);
    columns_json(&llm_cost_detail_columns, &row, j);
}

static void write_stage(const char *name, const struct llm_cost *c, struct jsonw *j) {
    jsonw_kobject(j, name);
    write_cost_fields(c, j);
    jsonw_end(j);
}

static void write_decode(const struct llm_static *r, struct jsonw *j) {
    double batch = (double)r->work.batch;
    jsonw_kobject(j, "decode");
    jsonw_knum(j, "flops_per_token", r->decode.flops / batch);
    jsonw_knum(j, "bytes_per_token", r->decode.bytes / batch);
    jsonw_knum(j, "floor_ms_per_token", r->decode.floor_s * MS / batch);
    jsonw_knum(j, "hard_bound_ms_per_token", llm_cost_hard_bound_s(&r->decode) * MS / batch);
    jsonw_kstr(j, "bound", llm_cost_bound(&r->decode));
    jsonw_ku64(j, "context", r->work.context);
    jsonw_knum(j, "tokens_per_s", llm_static_tokens_per_s(r));
    jsonw_kobject(j, "step");
    write_cost_fields(&r->decode, j);
    jsonw_end(j);
    jsonw_kobject(j, "generation");
    jsonw_ku64(j, "steps", r->decode_steps);
    jsonw_knum(j, "tokens", (double)r->decode_steps * batch);
    write_cost_fields(&r->generation, j);
    jsonw_knum(j, "tokens_per_s",
               r->decode_steps ? (double)r->decode_steps * batch / r->generation.floor_s : NAN);
    jsonw_end(j);
    jsonw_end(j);
}

static void write_stages(const struct llm_static *r, struct jsonw *j) {
    const struct llm_model *m = r->model;
    bool images = r->work.nimages > 0;
    jsonw_kobject(j, "stages");
    for (int s = 1; s < m->nstages; s++)
        if (images || !m->decodes) write_stage(m->stages[s], &r->vision[s], j);
    if (m->decodes) {
        if (images) write_stage("decoder", &r->decoder, j);
        write_stage("prefill", &r->prefill, j);
        write_decode(r, j);
    } else if (m->text.family) {
        write_stage("text", &r->decoder, j);
    }
    jsonw_end(j);
}

/* Writes one stage in the form of a run's static_compute.json, in which `stages` is a list. */
static void write_list_row(const char *name, const char *parent, double tokens, const struct llm_cost *c,
                           struct jsonw *j) {
    struct llm_cost_row item = { .stage = name, .parent = parent, .tokens = tokens, .cost = *c };
    struct column_row row = { .item = &item };
    jsonw_object(j);
    columns_json(&llm_stage_list_columns, &row, j);
    columns_json(&llm_cost_columns, &row, j);
    jsonw_end(j);
}

static void write_stage_list(const struct llm_static *r, struct jsonw *j) {
    const struct llm_model *m = r->model;
    double batch = (double)r->work.batch;
    jsonw_karray(j, "stage_list");
    if (m->decodes) write_list_row("prefill", NULL, batch * (double)r->work.prompt_tokens, &r->prefill, j);
    for (int s = 1; s < m->nstages; s++)
        if (r->work.nimages > 0 || !m->decodes)
            write_list_row(m->stages[s], m->decodes ? "prefill" : NULL, NAN, &r->vision[s], j);
    if (m->decodes && r->decode_steps)
        write_list_row("decode", NULL, batch * (double)r->decode_steps, &r->generation, j);
    jsonw_end(j);
}

static void write_operator(const struct llm_static *r, const struct llm_op *op, const char *name,
                           const struct llm_pass *pass, struct jsonw *j) {
    struct llm_cost_row item = { .stage = name,
                                 .module = op->module,
                                 .name = op->name,
                                 .layers = op->count,
                                 .in = op->in,
                                 .out = op->out,
                                 .cost = llm_cost_op(r->model, &r->setup, op, pass) };
    struct column_row row = { .item = &item };
    if (item.cost.flops == 0 && item.cost.bytes == 0) return;
    jsonw_object(j);
    columns_json(&llm_operator_columns, &row, j);
    columns_json(&llm_cost_columns, &row, j);
    jsonw_end(j);
}

static void write_module(const struct llm_static *r, size_t first, const char *name,
                         const struct llm_pass *pass, struct jsonw *j) {
    const struct llm_model *m = r->model;
    struct llm_cost sum = { 0 };
    for (size_t i = first; i < m->nops; i++) {
        if (m->ops[i].stage != m->ops[first].stage || strcmp(m->ops[i].module, m->ops[first].module) != 0)
            continue;
        struct llm_cost c = llm_cost_op(m, &r->setup, &m->ops[i], pass);
        llm_cost_add(&sum, &c);
    }
    if (sum.flops == 0 && sum.bytes == 0) return;
    struct llm_cost_row item = { .stage = name, .module = m->ops[first].module, .cost = sum };
    struct column_row row = { .item = &item };
    jsonw_object(j);
    columns_json(&llm_module_columns, &row, j);
    columns_json(&llm_cost_columns, &row, j);
    columns_json(&llm_cost_bound_columns, &row, j);
    jsonw_end(j);
}

static bool first_in_stage(const struct llm_model *m, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (m->ops[k].stage == m->ops[i].stage && strcmp(m->ops[k].module, m->ops[i].module) == 0)
            return false;
    return true;
}

/* Writes the operators, or the modules, of every pass: images, prefill and one decode step. */
static void breakdown(const struct llm_static *r, bool modules, struct jsonw *j) {
    const struct llm_model *m = r->model;
    struct llm_pass images = { .counts = r->counts };
    const struct llm_pass *first = m->decodes ? &r->prefill_pass : &images;
    for (int turn = 0; turn < (m->decodes ? 2 : 1); turn++)
        for (size_t i = 0; i < m->nops; i++) {
            bool decoder = m->ops[i].stage == LLM_STAGE_DECODER;
            if (turn == 1 && !decoder) continue;
            const struct llm_pass *pass = !decoder ? &images : turn ? &r->decode_pass : first;
            const char *name = !decoder || !m->decodes ? m->stages[m->ops[i].stage]
                               : turn                  ? "decode"
                                                       : "prefill";
            if (!modules)
                write_operator(r, &m->ops[i], name, pass, j);
            else if (first_in_stage(m, i))
                write_module(r, i, name, pass, j);
        }
}

static void write_memory(const struct llm_static *r, struct jsonw *j) {
    int fits = llm_static_fits(r);
    jsonw_kobject(j, "kv_cache");
    jsonw_knum(j, "bytes_per_token", r->kv_bytes_per_token);
    jsonw_knum(j, "bytes_at_end", r->kv_bytes_at_end);
    jsonw_kstr(j, "dtype", llm_dtype_name(llm_kv_dtype(r->model, r->work.kv)));
    jsonw_end(j);
    jsonw_kobject(j, "memory");
    jsonw_knum(j, "weights_bytes", r->weight_bytes);
    jsonw_knum(j, "kv_cache_bytes", r->kv_bytes_at_end);
    jsonw_knum(j, "activation_peak_bytes", r->activation_bytes);
    jsonw_knum(j, "total_bytes", r->memory_bytes);
    jsonw_kbool_known(j, "fits", fits);
    jsonw_end(j);
}

void llm_static_json_fields(const struct llm_static *r, struct jsonw *j) {
    jsonw_kstr(j, "schema", SCHEMA_STATIC);
    model(r, j);
    write_params(r, j);
    write_workload(r, j);
    write_device(r, j);
    write_stages(r, j);
    write_stage_list(r, j);
    write_memory(r, j);
    jsonw_karray(j, "modules");
    breakdown(r, true, j);
    jsonw_end(j);
    jsonw_karray(j, "operators");
    breakdown(r, false, j);
    jsonw_end(j);
    write_strings(j, "assumptions", r->assumptions, r->nassumptions);
    write_strings(j, "warnings", r->warnings, r->nwarnings);
}
