#include "report/static_compute.h"

#include <math.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/table.h"
#include "base/units.h"

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

static void stage_json(struct jsonw *j, const struct analyze_timing *t, const struct llm_cost *c) {
    const struct analyze_work *w = t->work;
    jsonw_object(j);
    jsonw_kstr(j, "name", t->stage);
    jsonw_kstr(j, "parent", t->parent);
    jsonw_knum(j, "tokens", w->tokens);
    jsonw_knum(j, "flops", w->flops);
    jsonw_knum(j, "bytes", w->bytes);
    jsonw_knum(j, "flops_per_byte", w->flops / w->bytes);
    jsonw_knum(j, "floor_ms", w->floor_ms);
    jsonw_kstr(j, "bound", isnan(w->flops) ? NULL : llm_cost_bound(c));
    jsonw_end(j);
}

void static_compute_json(const struct static_compute *s, struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", "inferprof.static_compute/1");
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
    jsonw_karray(&j, "stages");
    for (size_t i = 0; i < s->nstages; i++) stage_json(&j, &s->stages[i], &s->costs[i]);
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_finish(&j);
}

static void number_cell(struct table *t, double v, const char *fmt) {
    if (isfinite(v))
        table_cell(t, fmt, v);
    else
        table_cell(t, "-");
}

static void static_table(const struct static_compute *s, struct strbuf *out) {
    struct table t;
    table_init(&t);
    table_column(&t, "stage", TABLE_LEFT);
    table_column(&t, "tokens", TABLE_RIGHT);
    table_column(&t, "FLOPs", TABLE_RIGHT);
    table_column(&t, "bytes", TABLE_RIGHT);
    table_column(&t, "FLOPs/byte", TABLE_RIGHT);
    table_column(&t, "roofline (ms)", TABLE_RIGHT);
    table_column(&t, "bound", TABLE_LEFT);
    for (size_t i = 0; i < s->nstages; i++) {
        const struct analyze_timing *stage = &s->stages[i];
        const struct analyze_work *w = stage->work;
        const char *bound = isnan(w->flops) ? NULL : llm_cost_bound(&s->costs[i]);
        char text[32];
        table_cell(&t, "%s%s%s", stage->parent ? stage->parent : "", stage->parent ? "/" : "", stage->stage);
        number_cell(&t, w->tokens, "%.0f");
        table_cell(&t, "%s", units_flops(w->flops, text, sizeof text));
        table_cell(&t, "%s", units_bytes(w->bytes, text, sizeof text));
        number_cell(&t, w->flops / w->bytes, "%.1f");
        number_cell(&t, w->floor_ms, "%.3f");
        table_cell(&t, "%s", bound ? bound : "-");
    }
    table_markdown(&t, out);
    table_free(&t);
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
    strbuf_addf(out, "\nPeaks of %s: %s FLOP/s (%s), %s/s: %s.\n", s->peak->device,
                units_count(s->peak->flops_per_s, a, sizeof a), s->peak->type,
                units_bytes(s->peak->bytes_per_s, b, sizeof b),
                s->peak->source[0] ? s->peak->source : "not known");
}
