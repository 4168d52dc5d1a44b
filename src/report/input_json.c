#include "report/input_json.h"

#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "report/memory.h"

/* ---- out */

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

void input_json_write(struct jsonw *j, const struct analysis *a) {
    const struct analyze_input *in = a->input;
    if (!in) return;
    jsonw_kobject(j, "analysis_input");
    jsonw_kbool(j, "one_run", in->one_run);
    jsonw_kbool(j, "no_presets", in->no_presets);
    jsonw_kstr(j, "model", a->model);
    jsonw_knum(j, "peak_flop_per_s", in->peak_flops_per_s);
    jsonw_knum(j, "peak_byte_per_s", in->peak_bytes_per_s);
    jsonw_kstr(j, "peak_source", in->peak_source);
    write_costs(j, a->costs, a->ncosts);
    write_lists(j, in);
    jsonw_end(j);
}

/* ---- in: rows without a stage are left out */

static void read_cost(struct input_json *k, const json_t *o) {
    const char *stage = memory_text(o, "stage");
    if (!stage) return;
    k->costs[k->input.ncosts++] =
        (struct analyze_cost){ .stage = stage,
                               .per_token = json_is_true(json_object_get(o, "per_token")),
                               .flops = memory_number(o, "flops"),
                               .bytes = memory_number(o, "bytes"),
                               .floor_ns = memory_number(o, "floor_ns") };
}

/* As long as the times, or unknown altogether. */
static const double *column(const json_t *o, const char *key, size_t n) {
    const json_t *array = memory_array(o, key);
    size_t there = 0;
    if (!n || json_array_size(array) != n) return NULL;
    return memory_numbers(array, &there);
}

static const bool *flags(const json_t *o, const char *key, size_t n) {
    const json_t *array = memory_array(o, key);
    if (!n || json_array_size(array) != n) return NULL;
    bool *v = xcalloc(n, sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = json_is_true(json_array_get(array, i));
    return v;
}

static void read_timing(struct input_json *k, const json_t *o) {
    struct analyze_timing t = { .stage = memory_text(o, "stage"),
                                .recording_cost = memory_number(o, "recording_cost") };
    if (!t.stage) return;
    t.ms = memory_numbers(memory_array(o, "ms"), &t.n);
    t.tokens_in = column(o, "tokens_in", t.n);
    t.tokens_out = column(o, "tokens_out", t.n);
    t.failed = flags(o, "failed", t.n);
    k->timings[k->input.ntimings++] = t;
}

static void read_tokens(struct input_json *k, const json_t *o) {
    const char *stage = memory_text(o, "stage");
    if (!stage) return;
    k->tokens[k->input.ntokens++] =
        (struct analyze_tokens){ stage, memory_number(o, "in"), memory_number(o, "out") };
}

static void read_rule(struct input_json *k, const json_t *o) {
    struct analyze_rule rule = { memory_text(o, "stage"), memory_text(o, "glob") };
    if (rule.stage && rule.glob) k->rules[k->input.nrules++] = rule;
}

struct input_json *input_json_read(const json_t *member) {
    if (!json_is_object(member)) return NULL;
    const json_t *costs = memory_array(member, "costs"), *timings = memory_array(member, "timings"),
                 *tokens = memory_array(member, "tokens"), *rules = memory_array(member, "rules");
    struct input_json *k = xcalloc(1, sizeof *k);
    k->costs = xcalloc(json_array_size(costs) + 1, sizeof *k->costs);
    k->timings = xcalloc(json_array_size(timings) + 1, sizeof *k->timings);
    k->tokens = xcalloc(json_array_size(tokens) + 1, sizeof *k->tokens);
    k->rules = xcalloc(json_array_size(rules) + 1, sizeof *k->rules);
    k->input = (struct analyze_input){ .costs = k->costs,
                                       .timings = k->timings,
                                       .tokens = k->tokens,
                                       .rules = k->rules,
                                       .one_run = json_is_true(json_object_get(member, "one_run")),
                                       .no_presets = json_is_true(json_object_get(member, "no_presets")),
                                       .peak_flops_per_s = memory_number(member, "peak_flop_per_s"),
                                       .peak_bytes_per_s = memory_number(member, "peak_byte_per_s"),
                                       .peak_source = memory_text(member, "peak_source"),
                                       .model = memory_text(member, "model") };
    for (size_t i = 0; i < json_array_size(costs); i++) read_cost(k, json_array_get(costs, i));
    for (size_t i = 0; i < json_array_size(timings); i++) read_timing(k, json_array_get(timings, i));
    for (size_t i = 0; i < json_array_size(tokens); i++) read_tokens(k, json_array_get(tokens, i));
    for (size_t i = 0; i < json_array_size(rules); i++) read_rule(k, json_array_get(rules, i));
    return k;
}

void input_json_free(struct input_json *k) {
    if (!k) return;
    for (size_t i = 0; i < k->input.ntimings; i++) {
        free((void *)k->timings[i].ms);
        free((void *)k->timings[i].tokens_in);
        free((void *)k->timings[i].tokens_out);
        free((void *)k->timings[i].failed);
    }
    free(k->costs);
    free(k->timings);
    free(k->tokens);
    free(k->rules);
    free(k);
}
