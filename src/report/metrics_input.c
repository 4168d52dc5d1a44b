/* The input of the analysis (costs, times, tokens, rules, peaks) as a member of metrics.json. `inferprof
 * report` reads it (run/saved_input.h) to repeat the analysis. */
#include <math.h>

#include "analyze/analyze.h"
#include "report/metrics.h"

static void write_numbers(struct jsonw *j, const char *key, const double *v, size_t n) {
    if (!v) return;
    jsonw_karray(j, key);
    for (size_t i = 0; i < n; i++) jsonw_num(j, v[i]);
    jsonw_end(j);
}

static void write_timing(struct jsonw *j, const struct analyze_timing *t) {
    jsonw_object(j);
    jsonw_kstr(j, "stage", t->stage);
    jsonw_knum(j, "recording_cost", t->recording_cost > 0 ? t->recording_cost : NAN);
    write_numbers(j, "ms", t->ms, t->n);
    write_numbers(j, "tokens_in", t->tokens_in, t->n);
    write_numbers(j, "tokens_out", t->tokens_out, t->n);
    write_numbers(j, "flops", t->flops, t->n);
    write_numbers(j, "bytes", t->bytes, t->n);
    write_numbers(j, "floor_ms", t->floor_ms, t->n);
    if (t->input) jsonw_ku64(j, "recorded_input", t->recorded_input);
    if (t->failed) {
        jsonw_karray(j, "failed");
        for (size_t i = 0; i < t->n; i++) jsonw_bool(j, t->failed[i]);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_costs(struct jsonw *j, const struct analyze_cost *costs, size_t n) {
    jsonw_karray(j, "costs");
    for (size_t i = 0; i < n; i++) {
        jsonw_object(j);
        jsonw_kstr(j, "stage", costs[i].stage);
        jsonw_kbool(j, "per_token", costs[i].per_token);
        jsonw_knum(j, "flops", costs[i].flops);
        jsonw_knum(j, "bytes", costs[i].bytes);
        jsonw_knum(j, "floor_ns", costs[i].floor_ns);
        jsonw_knum(j, "peak_flop_per_s", costs[i].peak_flops_per_s > 0 ? costs[i].peak_flops_per_s : NAN);
        jsonw_knum(j, "peak_byte_per_s", costs[i].peak_bytes_per_s > 0 ? costs[i].peak_bytes_per_s : NAN);
        jsonw_kstr(j, "level", costs[i].level);
        jsonw_knum(j, "step_bytes", costs[i].step_bytes > 0 ? costs[i].step_bytes : NAN);
        jsonw_knum(j, "experts_read", costs[i].experts_read > 0 ? costs[i].experts_read : NAN);
        jsonw_kbool(j, "experts_assumed", costs[i].experts_assumed);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_lists(struct jsonw *j, const struct analyze_input *in) {
    jsonw_karray(j, "timings");
    for (size_t i = 0; i < in->ntimings; i++) write_timing(j, &in->timings[i]);
    jsonw_end(j);
    jsonw_karray(j, "tokens");
    for (size_t i = 0; i < in->ntokens; i++) {
        jsonw_object(j);
        jsonw_kstr(j, "stage", in->tokens[i].stage);
        jsonw_knum(j, "in", in->tokens[i].in);
        jsonw_knum(j, "out", in->tokens[i].out);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_karray(j, "rules");
    for (size_t i = 0; i < in->nrules; i++) {
        jsonw_object(j);
        jsonw_kstr(j, "stage", in->rules[i].stage);
        jsonw_kstr(j, "glob", in->rules[i].glob);
        jsonw_end(j);
    }
    jsonw_end(j);
}

void metrics_input(struct jsonw *j, const struct analysis *a) {
    const struct analyze_input *in = a->input;
    if (!in) return;
    jsonw_kobject(j, "analysis_input");
    jsonw_kbool(j, "one_run", in->one_run);
    jsonw_kbool(j, "no_presets", in->no_presets);
    jsonw_kstr(j, "model", a->model);
    jsonw_knum(j, "peak_flop_per_s", in->peak_flops_per_s);
    jsonw_knum(j, "peak_byte_per_s", in->peak_bytes_per_s);
    jsonw_kstr(j, "peak_source", in->peak_source);
    if (in->failure) {
        jsonw_ku64(j, "failed_requests", in->nfailed);
        jsonw_ku64(j, "requests", in->nrequests);
        jsonw_kstr(j, "failure", in->failure);
    }
    if (in->busy) jsonw_kstr(j, "busy", in->busy);
    write_costs(j, a->costs, a->ncosts);
    write_lists(j, in);
    jsonw_end(j);
}
