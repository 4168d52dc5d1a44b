#include "run/saved_metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/schema.h"
#include "base/secret.h"
#include "run/saved_input.h"

#define MAX_METRICS_BYTES (256u << 20)
#define UNTRUSTED_BYTES (8u << 20)
#define UNTRUSTED_VALUES 250000
#define UNTRUSTED_REPEATS 20000
#define UNTRUSTED_PROCESSES 1000

static const char **read_texts(const json_t *array, size_t *n) {
    const char **v = xcalloc(json_array_size(array) + 1, sizeof *v);
    *n = 0;
    for (size_t i = 0; i < json_array_size(array); i++)
        if (json_is_string(json_array_get(array, i))) v[(*n)++] = json_string_value(json_array_get(array, i));
    return v;
}

static void read_stage(struct saved_metrics *m, const json_t *o) {
    struct analyze_work work = { .tokens = jsonr_number(o, "tokens"),
                                 .flops = jsonr_number(o, "flops"),
                                 .bytes = jsonr_number(o, "bytes"),
                                 .floor_ms = jsonr_number(o, "floor_ms"),
                                 .recorded_ms = jsonr_number(o, "representative_ms") };
    struct analyze_timing t = { .stage = jsonr_text(o, "name"), .parent = jsonr_text(o, "parent") };
    const json_t *repeats = jsonr_array(o, "repeats_ms");
    if (!t.stage) return;
    if (isfinite(work.floor_ms) || isfinite(work.flops))
        m->costs[m->ncosts++] = (struct analyze_cost){ .stage = t.stage,
                                                       .flops = work.flops,
                                                       .bytes = work.bytes,
                                                       .floor_ns = work.floor_ms * 1e6,
                                                       .peak_flops_per_s = jsonr_number(o, "peak_flop_per_s"),
                                                       .peak_bytes_per_s = jsonr_number(o, "peak_byte_per_s"),
                                                       .level = jsonr_text(o, "bandwidth_level"),
                                                       .step_bytes = jsonr_number(o, "step_bytes") };
    if (!json_array_size(repeats)) return;
    t.ms = jsonr_numbers(repeats, &t.n);
    t.work = &m->works[m->ntimings];
    m->works[m->ntimings] = work;
    m->timings[m->ntimings++] = t;
}

/* analysis_input does not contain the parents and the work of its timings. They are stored with the
 * stages. */
static void complete_kept_timings(struct saved_metrics *m) {
    for (size_t i = 0; m->kept && i < m->kept->input.ntimings; i++)
        for (size_t k = 0; k < m->ntimings; k++) {
            struct analyze_timing *t = &m->kept->timings[i];
            if (strcmp(t->stage, m->timings[k].stage) != 0) continue;
            t->parent = m->timings[k].parent;
            t->work = m->timings[k].work;
        }
}

static void read_figure(struct saved_metrics *m, const json_t *o) {
    struct run_figure f = { jsonr_text(o, "key"),
                            jsonr_text(o, "name"),
                            jsonr_text(o, "unit"),
                            NULL,
                            0,
                            json_is_true(json_object_get(o, "larger_is_better")) };
    if (!f.key || !f.name) return;
    f.values = jsonr_numbers(jsonr_array(o, "repeats"), &f.n);
    m->figures[m->nfigures++] = f;
}

static void read_answer(struct saved_metrics *m, const json_t *o) {
    struct run_answer a = { .input = jsonr_text(o, "input"),
                            .prompt = jsonr_text(o, "prompt"),
                            .text = jsonr_text(o, "text"),
                            .error = jsonr_text(o, "error"),
                            .prompt_tokens = jsonr_number(o, "prompt_tokens"),
                            .new_tokens = jsonr_number(o, "new_tokens"),
                            .ms = jsonr_number(o, "ms") };
    if (a.input) m->answers[m->nanswers++] = a;
}

static void read_answers(struct saved_metrics *m) {
    const json_t *answers = jsonr_array(m->root, "answers");
    size_t n = json_array_size(answers);
    m->answers = xcalloc(n + 1, sizeof *m->answers);
    for (size_t i = 0; i < n; i++) read_answer(m, json_array_get(answers, i));
}

/* A number from `least` to a million, without its fraction; `least` for other values. */
static uint32_t read_index(const json_t *o, const char *key, uint32_t least) {
    double v = jsonr_number(o, key);
    return v >= least && v <= 1e6 ? (uint32_t)v : least;
}

static void read_repeats(struct saved_metrics *m) {
    const json_t *rows = jsonr_array(m->root, "repeats");
    m->nrepeats = json_array_size(rows);
    m->repeats = xcalloc(m->nrepeats + 1, sizeof *m->repeats);
    m->inputs = xcalloc(m->nrepeats + 1, sizeof *m->inputs);
    for (size_t i = 0; i < m->nrepeats; i++) {
        const json_t *o = json_array_get(rows, i);
        m->repeats[i] = (struct run_repeat){ .process = read_index(o, "process", 1),
                                             .input = read_index(o, "input_index", 0),
                                             .name = jsonr_text(o, "input") };
        m->inputs[i] = m->repeats[i].input;
    }
}

/* Only timings with one value per repeat have inputs. */
static void set_inputs(const struct saved_metrics *m, struct analyze_timing *v, size_t n) {
    for (size_t i = 0; i < n; i++) v[i].input = m->nrepeats && v[i].n == m->nrepeats ? m->inputs : NULL;
}

/* ---- secrets: older versions did not mask them */

static void mask_text(json_t *text) {
    if (!json_is_string(text)) return;
    char *copy = xstrdup(json_string_value(text));
    secret_mask(copy);
    if (strcmp(copy, json_string_value(text)) != 0) json_string_set(text, copy);
    free(copy);
}

static void mask_saved_secrets(json_t *root) {
    const json_t *run = json_object_get(root, "run"), *env = jsonr_array(root, "environment"),
                 *warnings = jsonr_array(root, "problems");
    mask_text(json_object_get(run, "command"));
    mask_text(json_object_get(run, "title"));
    for (size_t i = 0; i < json_array_size(env); i++)
        mask_text(json_object_get(json_array_get(env, i), "value"));
    for (size_t i = 0; i < json_array_size(warnings); i++) mask_text(json_array_get(warnings, i));
}

static void read_members(struct saved_metrics *m) {
    const json_t *stages = jsonr_array(m->root, "stages"), *figures = jsonr_array(m->root, "figures");
    const json_t *env = jsonr_array(m->root, "environment");
    size_t n = json_array_size(stages);
    m->timings = xcalloc(n + 1, sizeof *m->timings);
    m->works = xcalloc(n + 1, sizeof *m->works);
    m->costs = xcalloc(n + 1, sizeof *m->costs);
    for (size_t i = 0; i < n; i++) read_stage(m, json_array_get(stages, i));
    m->figures = xcalloc(json_array_size(figures) + 1, sizeof *m->figures);
    for (size_t i = 0; i < json_array_size(figures); i++) read_figure(m, json_array_get(figures, i));
    m->env = xcalloc(json_array_size(env) + 1, sizeof *m->env);
    for (size_t i = 0; i < json_array_size(env); i++) {
        const json_t *o = json_array_get(env, i);
        struct run_kv kv = { jsonr_text(o, "group"), jsonr_text(o, "key"), jsonr_text(o, "value") };
        if (kv.key) m->env[m->nenv++] = kv;
    }
    m->assumptions = read_texts(jsonr_array(m->root, "assumptions"), &m->nassumptions);
    m->warnings = read_texts(jsonr_array(m->root, "problems"), &m->nwarnings);
    m->kept = saved_input_read(json_object_get(m->root, "analysis_input"));
    complete_kept_timings(m);
    read_repeats(m);
    set_inputs(m, m->timings, m->ntimings);
    if (m->kept) set_inputs(m, m->kept->timings, m->kept->input.ntimings);
    read_answers(m);
}

/* Version of metrics.json; 0: another document. inferprof 0.1 wrote the schema "inferprof-metrics" and the
 * version in a separate member. */
static unsigned metrics_version(const json_t *root) {
    const char *schema = jsonr_text(root, "schema");
    double old = jsonr_number(root, "schema_version");
    if (schema && strcmp(schema, "inferprof-metrics") == 0) return old >= 1 && old < 1e6 ? (unsigned)old : 0;
    return schema_version(schema, SCHEMA_METRICS);
}

static struct saved_metrics *metrics_from_json(json_t *root, const char *what, struct err *err) {
    if (!root) return NULL;
    unsigned newest = schema_version(SCHEMA_METRICS, SCHEMA_METRICS), version = metrics_version(root);
    if (!version)
        err_set(err, "%s: not the metrics.json of a run (no \"schema\": \"" SCHEMA_METRICS "\")", what);
    else if (version > newest)
        err_set(err, "%s: schema version %u is not supported; this program reads versions up to %u", what,
                version, newest);
    else {
        struct saved_metrics *m = xcalloc(1, sizeof *m);
        m->root = root;
        mask_saved_secrets(root);
        read_members(m);
        return m;
    }
    json_decref(root);
    return NULL;
}

struct saved_metrics *saved_metrics_load(const char *path, struct err *err) {
    return metrics_from_json(jsonr_load_path(path, MAX_METRICS_BYTES, err), path, err);
}

static bool repeats_allowed(const struct saved_metrics *m) {
    for (size_t i = 0; i < m->nrepeats; i++)
        if (m->repeats[i].process > UNTRUSTED_PROCESSES) return false;
    return m->nrepeats <= UNTRUSTED_REPEATS;
}

struct saved_metrics *saved_metrics_load_untrusted(const char *path, size_t *values, struct err *err) {
    struct strbuf text = STRBUF_INIT;
    struct saved_metrics *m = NULL;
    size_t n = 0;
    if (file_read(path, UNTRUSTED_BYTES, &text, err) == 0) {
        n = jsonr_count_values(text.buf, text.len);
        if (n > UNTRUSTED_VALUES)
            err_set(err, "%s: more than %d values; a server does not read such a document", path,
                    UNTRUSTED_VALUES);
        else
            m = saved_metrics_parse(text.buf, text.len, path, err);
    }
    strbuf_free(&text);
    if (m && !repeats_allowed(m)) {
        err_set(err, "%s: more than %d repeats or %d processes; a server does not read such a document", path,
                UNTRUSTED_REPEATS, UNTRUSTED_PROCESSES);
        saved_metrics_close(m);
        m = NULL;
    }
    if (values) *values = n;
    return m;
}

struct saved_metrics *saved_metrics_parse(const char *text, size_t n, const char *what, struct err *err) {
    return metrics_from_json(jsonr_load_text(text, n, what, err), what, err);
}

void saved_metrics_close(struct saved_metrics *m) {
    if (!m) return;
    for (size_t i = 0; i < m->ntimings; i++) free((void *)m->timings[i].ms);
    for (size_t i = 0; i < m->nfigures; i++) free((void *)m->figures[i].values);
    free(m->figures);
    free(m->env);
    free(m->assumptions);
    free(m->warnings);
    free(m->timings);
    free(m->works);
    free(m->costs);
    free(m->answers);
    free(m->repeats);
    free(m->inputs);
    saved_input_free(m->kept);
    json_decref(m->root);
    free(m);
}

struct analyze_input saved_metrics_input(const struct saved_metrics *m) {
    if (m->kept) return m->kept->input;
    return (struct analyze_input){ .timings = m->timings,
                                   .ntimings = m->ntimings,
                                   .costs = m->costs,
                                   .ncosts = m->ncosts,
                                   /* only `profile` times stages */
                                   .one_run = m->ntimings > 0,
                                   .peak_flops_per_s = NAN,
                                   .peak_bytes_per_s = NAN };
}

void saved_metrics_drop_floors(struct saved_metrics *m) {
    struct analyze_cost *costs = m->kept ? m->kept->costs : m->costs;
    size_t ncosts = m->kept ? m->kept->input.ncosts : m->ncosts;
    for (size_t i = 0; i < m->ntimings; i++) m->works[i].floor_ms = NAN;
    for (size_t i = 0; m->kept && i < m->kept->input.ntimings; i++) {
        free((void *)m->kept->timings[i].floor_ms);
        m->kept->timings[i].floor_ms = NULL;
    }
    for (size_t i = 0; i < ncosts; i++)
        costs[i].floor_ns = costs[i].peak_flops_per_s = costs[i].peak_bytes_per_s = NAN;
    for (size_t i = 0; i < ncosts; i++) costs[i].level = NULL;
}

static void read_levels(const json_t *rows, struct llm_levels *out) {
    for (size_t i = 0; i < json_array_size(rows) && out->n < LLM_LEVELS_MAX; i++) {
        const json_t *row = json_array_get(rows, i);
        struct llm_level l = { .bytes = jsonr_number(row, "bytes"),
                               .bytes_per_s = jsonr_number(row, "byte_per_s") };
        const char *name = jsonr_text(row, "level");
        if (!name || !(l.bytes > 0) || !(l.bytes_per_s > 0)) continue;
        snprintf(l.name, sizeof l.name, "%.7s", name);
        out->v[out->n++] = l;
    }
}

void saved_metrics_fill(const struct saved_metrics *m, struct run_info *in) {
    const json_t *run = json_object_get(m->root, "run"), *device = json_object_get(m->root, "device"),
                 *model = json_object_get(m->root, "model");
    in->run_id = jsonr_text(run, "id");
    in->title = jsonr_text(run, "title");
    in->model = jsonr_text(run, "model");
    in->engine = jsonr_text(run, "engine");
    in->command = jsonr_text(run, "command");
    in->incomplete = json_is_true(json_object_get(run, "incomplete"));
    const json_t *started = json_object_get(run, "started_unix_ns");
    if (json_is_integer(started) && json_integer_value(started) > 0)
        in->started_wall_ns = (uint64_t)json_integer_value(started);
    in->repeats = jsonr_count(run, "repeats");
    in->failed_repeats = jsonr_count(run, "failed_repeats");
    in->each_repeat = m->repeats;
    in->neach_repeat = m->nrepeats;
    in->top = jsonr_count(run, "top");
    in->answers = m->answers;
    in->nanswers = m->nanswers;
    in->answers_total = jsonr_count(run, "answers");
    if (in->answers_total < in->nanswers) in->answers_total = in->nanswers;
    in->peak.device = jsonr_text(device, "name");
    in->peak.type = jsonr_text(device, "peak_type");
    in->peak.source = jsonr_text(device, "peak_source");
    in->peak.flops_per_s = jsonr_number(device, "peak_flop_per_s");
    in->peak.bytes_per_s = jsonr_number(device, "peak_byte_per_s");
    in->peak.read_bytes_per_s = jsonr_number(device, "read_byte_per_s");
    for (size_t i = 0; i < run_model_fields_n; i++) {
        const struct run_model_field *f = &run_model_fields[i];
        void *to = (char *)&in->facts + f->offset;
        if (f->text)
            *(const char **)to = jsonr_text(model, f->key);
        else
            *(double *)to = jsonr_number(model, f->key);
    }
    in->context.mode = jsonr_text(model, "context_len_mode");
    in->context.tokens = jsonr_number(model, "context_len");
    read_levels(jsonr_array(device, "bandwidth_levels"), &in->peak.levels);
    in->figures = m->figures;
    in->nfigures = m->nfigures;
    in->env = m->env;
    in->nenv = m->nenv;
    in->assumptions = m->assumptions;
    in->nassumptions = m->nassumptions;
    in->warnings = m->warnings;
    in->nwarnings = m->nwarnings;
}
