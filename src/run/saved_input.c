#include "run/saved_input.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/jsonr.h"

/* Ignores a row without a stage. */
static void read_cost(struct saved_input *k, const json_t *o) {
    const char *stage = jsonr_text(o, "stage");
    if (!stage) return;
    k->costs[k->input.ncosts++] =
        (struct analyze_cost){ .stage = stage,
                               .per_token = json_is_true(json_object_get(o, "per_token")),
                               .flops = jsonr_number(o, "flops"),
                               .bytes = jsonr_number(o, "bytes"),
                               .floor_ns = jsonr_number(o, "floor_ns"),
                               .peak_flops_per_s = jsonr_number(o, "peak_flop_per_s"),
                               .peak_bytes_per_s = jsonr_number(o, "peak_byte_per_s"),
                               .level = jsonr_text(o, "level"),
                               .step_bytes = jsonr_number(o, "step_bytes"),
                               .experts_read = jsonr_number(o, "experts_read"),
                               .experts_assumed = json_is_true(json_object_get(o, "experts_assumed")) };
}

/* NULL: not one value per repeat */
static const double *column(const json_t *o, const char *key, size_t n) {
    const json_t *array = jsonr_array(o, key);
    size_t there = 0;
    if (!n || json_array_size(array) != n) return NULL;
    return jsonr_numbers(array, &there);
}

static const bool *flags(const json_t *o, const char *key, size_t n) {
    const json_t *array = jsonr_array(o, key);
    if (!n || json_array_size(array) != n) return NULL;
    bool *v = xcalloc(n, sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = json_is_true(json_array_get(array, i));
    return v;
}

static void read_timing(struct saved_input *k, const json_t *o) {
    struct analyze_timing t = { .stage = jsonr_text(o, "stage"),
                                .recording_cost = jsonr_number(o, "recording_cost") };
    if (!t.stage) return;
    t.ms = jsonr_numbers(jsonr_array(o, "ms"), &t.n);
    t.tokens_in = column(o, "tokens_in", t.n);
    t.tokens_out = column(o, "tokens_out", t.n);
    t.flops = column(o, "flops", t.n);
    t.bytes = column(o, "bytes", t.n);
    t.floor_ms = column(o, "floor_ms", t.n);
    double recorded = jsonr_number(o, "recorded_input");
    t.recorded_input = recorded >= 0 && recorded < UINT32_MAX ? (uint32_t)recorded : UINT32_MAX;
    t.failed = flags(o, "failed", t.n);
    k->timings[k->input.ntimings++] = t;
}

static void read_tokens(struct saved_input *k, const json_t *o) {
    const char *stage = jsonr_text(o, "stage");
    if (!stage) return;
    k->tokens[k->input.ntokens++] =
        (struct analyze_tokens){ stage, jsonr_number(o, "in"), jsonr_number(o, "out") };
}

static void read_rule(struct saved_input *k, const json_t *o) {
    struct analyze_rule rule = { jsonr_text(o, "stage"), jsonr_text(o, "glob") };
    if (rule.stage && rule.glob) k->rules[k->input.nrules++] = rule;
}

struct saved_input *saved_input_read(const json_t *member) {
    if (!json_is_object(member)) return NULL;
    const json_t *costs = jsonr_array(member, "costs"), *timings = jsonr_array(member, "timings"),
                 *tokens = jsonr_array(member, "tokens"), *rules = jsonr_array(member, "rules");
    struct saved_input *k = xcalloc(1, sizeof *k);
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
                                       .peak_flops_per_s = jsonr_number(member, "peak_flop_per_s"),
                                       .peak_bytes_per_s = jsonr_number(member, "peak_byte_per_s"),
                                       .peak_source = jsonr_text(member, "peak_source"),
                                       .nfailed = jsonr_count(member, "failed_requests"),
                                       .nrequests = jsonr_count(member, "requests"),
                                       .failure = jsonr_text(member, "failure"),
                                       .busy = jsonr_text(member, "busy"),
                                       .model = jsonr_text(member, "model") };
    for (size_t i = 0; i < json_array_size(costs); i++) read_cost(k, json_array_get(costs, i));
    for (size_t i = 0; i < json_array_size(timings); i++) read_timing(k, json_array_get(timings, i));
    for (size_t i = 0; i < json_array_size(tokens); i++) read_tokens(k, json_array_get(tokens, i));
    for (size_t i = 0; i < json_array_size(rules); i++) read_rule(k, json_array_get(rules, i));
    return k;
}

void saved_input_free(struct saved_input *k) {
    if (!k) return;
    for (size_t i = 0; i < k->input.ntimings; i++) {
        free((void *)k->timings[i].ms);
        free((void *)k->timings[i].tokens_in);
        free((void *)k->timings[i].tokens_out);
        free((void *)k->timings[i].flops);
        free((void *)k->timings[i].bytes);
        free((void *)k->timings[i].floor_ms);
        free((void *)k->timings[i].failed);
    }
    free(k->costs);
    free(k->timings);
    free(k->tokens);
    free(k->rules);
    free(k);
}
