/* assumptions.md and static_compute.json|md. */
#include "cmd/profile_files.h"

#include <math.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/table.h"
#include "base/units.h"
#include "session/run_dir.h"

static int put(const struct profile_run *run, const char *name, struct strbuf *text, struct err *err) {
    int rc = run_dir_write(run->run_dir, name, text->buf, text->len, err);
    strbuf_free(text);
    return rc;
}

int profile_write_assumptions(const struct profile_run *run, const struct profile_results *r,
                              struct err *err) {
    struct strbuf out = STRBUF_INIT;
    strbuf_addstr(&out, "# What these numbers take for granted\n\n");
    for (size_t i = 0; i < r->assumptions.n; i++) {
        strbuf_addstr(&out, "- ");
        strbuf_add_printable(&out, r->assumptions.v[i], strlen(r->assumptions.v[i]));
        strbuf_addch(&out, '\n');
    }
    return put(run, "assumptions.md", &out, err);
}

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
    const struct analyze_work *s = t->work;
    jsonw_object(j);
    jsonw_kstr(j, "name", t->stage);
    jsonw_kstr(j, "parent", t->parent);
    jsonw_knum(j, "tokens", s->tokens);
    jsonw_knum(j, "flops", s->flops);
    jsonw_knum(j, "bytes", s->bytes);
    jsonw_knum(j, "flops_per_byte", s->flops / s->bytes);
    jsonw_knum(j, "floor_ms", s->floor_ms);
    jsonw_kstr(j, "bound", isnan(s->flops) ? NULL : llm_cost_bound(c));
    jsonw_end(j);
}

static void static_json(const struct profile_run *run, const struct profile_results *r, struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", "inferprof.static_compute/1");
    if (run->plan->model) {
        model_json(&j, run->plan->model);
    } else {
        jsonw_key(&j, "model");
        jsonw_null(&j);
        jsonw_kstr(&j, "unknown_because", run->plan->model_note.msg);
    }
    jsonw_kobject(&j, "peak");
    jsonw_kstr(&j, "device", run->peak->device);
    jsonw_kstr(&j, "type", run->peak->type);
    jsonw_kstr(&j, "source", run->peak->source);
    jsonw_knum(&j, "flops_per_s", run->peak->peak.flop_per_s);
    jsonw_knum(&j, "bytes_per_s", run->peak->peak.bytes_per_s);
    jsonw_end(&j);
    jsonw_karray(&j, "stages");
    for (size_t i = 0; i < r->nstages; i++) stage_json(&j, &r->timings[i], &r->timed_costs[i]);
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_finish(&j);
}

static void fixed(struct table *t, double v, const char *fmt) {
    if (isfinite(v))
        table_cell(t, fmt, v);
    else
        table_cell(t, "-");
}

static void static_table(const struct profile_results *r, struct strbuf *out) {
    struct table t;
    table_init(&t);
    table_column(&t, "stage", TABLE_LEFT);
    table_column(&t, "tokens", TABLE_RIGHT);
    table_column(&t, "FLOPs", TABLE_RIGHT);
    table_column(&t, "bytes", TABLE_RIGHT);
    table_column(&t, "FLOPs/byte", TABLE_RIGHT);
    table_column(&t, "floor (ms)", TABLE_RIGHT);
    table_column(&t, "bound", TABLE_LEFT);
    for (size_t i = 0; i < r->nstages; i++) {
        const struct analyze_timing *timing = &r->timings[i];
        const struct analyze_work *s = timing->work;
        const char *bound = isnan(s->flops) ? NULL : llm_cost_bound(&r->timed_costs[i]);
        char text[32];
        table_cell(&t, "%s%s%s", timing->parent ? timing->parent : "", timing->parent ? "/" : "",
                   timing->stage);
        fixed(&t, s->tokens, "%.0f");
        table_cell(&t, "%s", units_flops(s->flops, text, sizeof text));
        table_cell(&t, "%s", units_bytes(s->bytes, text, sizeof text));
        fixed(&t, s->flops / s->bytes, "%.1f");
        fixed(&t, s->floor_ms, "%.3f");
        table_cell(&t, "%s", bound ? bound : "-");
    }
    table_markdown(&t, out);
    table_free(&t);
}

static void static_markdown(const struct profile_run *run, const struct profile_results *r,
                            struct strbuf *out) {
    const struct llm_model *m = run->plan->model;
    char a[32], b[32], c[32], d[32];
    strbuf_addstr(out, "# What the model must cost\n\n");
    if (m)
        strbuf_addf(out,
                    "%s: %s parameters (%s pass through for one token), %s of weights as %s, %s of KV cache "
                    "a token.\n\n",
                    run->plan->model_name, units_count((double)m->params.total, a, sizeof a),
                    units_count((double)m->params.active, b, sizeof b),
                    units_bytes(llm_weight_bytes(m), c, sizeof c), llm_dtype_name(m->dtype),
                    units_bytes(llm_kv_bytes_per_token(m, LLM_DTYPE_UNKNOWN), d, sizeof d));
    else
        strbuf_addf(out, "Not known: %s\n\n", run->plan->model_note.msg);
    strbuf_addstr(out,
                  "For one inference of this run (medians over the repeats), at the counts that really were. "
                  "Image stages are inside prefill.\n\n");
    static_table(r, out);
    strbuf_addf(out, "\nPeaks of %s: %s FLOP/s (%s), %s/s: %s.\n", run->peak->device,
                units_count(run->peak->peak.flop_per_s, a, sizeof a), run->peak->type,
                units_bytes(run->peak->peak.bytes_per_s, b, sizeof b),
                run->peak->source[0] ? run->peak->source : "not known");
}

int profile_write_static(const struct profile_run *run, const struct profile_results *r, struct err *err) {
    struct strbuf json = STRBUF_INIT, md = STRBUF_INIT;
    static_json(run, r, &json);
    static_markdown(run, r, &md);
    int rc = put(run, "static_compute.json", &json, err);
    int rc2 = rc == 0 ? put(run, "static_compute.md", &md, err) : -1;
    strbuf_free(&md);
    return rc == 0 ? rc2 : rc;
}
