/* GET /api/v1/reports/{run_id}: the summary of a run, with the names of the original HTTP contract. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/jsonr.h"
#include "base/jsonw.h"
#include "base/util.h"
#include "run/saved_metrics.h"
#include "serve/api.h"
#include "serve/jobs.h"
#include "serve/server.h"

#define TOP_OPERATORS 20

/* Every name of the contract, and where metrics.json has the value: `object` is a member of the document, and
 * `key` a member of it. The columns of an operator are members of an element of `operators`. */
enum summary_kind {
    MODEL_NUMBER,
    STAGE_NUMBERS,
    OPERATOR_LIST,
    OPERATOR_TEXT,
    OPERATOR_NUMBER,
    AGGREGATES,
    NOTES
};
static const struct summary_name {
    enum summary_kind kind;
    const char *name, *object, *key;
    double scale; /* to the unit of the contract */
} names[] = {
    { MODEL_NUMBER, "mfu_model_level", "model", "mfu", 1 },
    { MODEL_NUMBER, "mbu_model_level", "model", "mbu", 1 },
    { STAGE_NUMBERS, "mfu_per_stage", "aggregates", "mfu_stage", 1 },
    { OPERATOR_LIST, "top_operators", "operators", NULL, 1 },
    { OPERATOR_TEXT, "op_name", "operators", "name", 1 },
    { OPERATOR_NUMBER, "total_time_ms", "operators", "total_ns", 1e-6 },
    { OPERATOR_NUMBER, "cuda_time_ms", "operators", "device_ns", 1e-6 },
    { OPERATOR_NUMBER, "calls", "operators", "calls", 1 },
    { AGGREGATES, "aggregates", "aggregates", NULL, 1 },
    { NOTES, "notes", "notes", "text", 1 },
};

static double total_ns(const json_t *operator_) {
    double v = jsonr_number(operator_, "total_ns");
    return isfinite(v) ? v : -1;
}

static int by_total(const void *a, const void *b) {
    double x = total_ns(*(json_t *const *)a), y = total_ns(*(json_t *const *)b);
    return x < y ? 1 : x > y ? -1 : 0;
}

static void write_operator(struct jsonw *j, const json_t *operator_) {
    jsonw_object(j);
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (names[i].kind == OPERATOR_TEXT)
            jsonw_kstr(j, names[i].name, jsonr_text(operator_, names[i].key));
        else if (names[i].kind == OPERATOR_NUMBER)
            jsonw_knum(j, names[i].name, jsonr_number(operator_, names[i].key) * names[i].scale);
    jsonw_end(j);
}

static void write_operators(struct jsonw *j, const char *name, const json_t *list) {
    size_t n = json_array_size(list);
    json_t **sorted = xcalloc(n + 1, sizeof *sorted);
    for (size_t i = 0; i < n; i++) sorted[i] = json_array_get(list, i);
    if (n) qsort(sorted, n, sizeof *sorted, by_total);
    jsonw_karray(j, name);
    for (size_t i = 0; i < MIN(n, TOP_OPERATORS); i++) write_operator(j, sorted[i]);
    jsonw_end(j);
    free(sorted);
}

static void write_numbers_of(struct jsonw *j, const char *name, const json_t *object) {
    const char *key;
    json_t *value;
    jsonw_kobject(j, name);
    json_object_foreach((json_t *)object, key, value) jsonw_knum(j, key, jsonr_number(object, key));
    jsonw_end(j);
}

/* members that have a mean */
static void write_aggregates(struct jsonw *j, const char *name, const json_t *object) {
    const char *key;
    json_t *value;
    jsonw_kobject(j, name);
    json_object_foreach((json_t *)object, key, value) {
        if (!json_is_object(value) || !json_object_get(value, "mean")) continue;
        jsonw_kobject(j, key);
        jsonw_knum(j, "mean", jsonr_number(value, "mean"));
        jsonw_knum(j, "std", jsonr_number(value, "std"));
        jsonw_end(j);
    }
    jsonw_end(j);
}

/* The notes, and the problems of the run. */
static void write_notes(struct jsonw *j, const struct summary_name *n, const json_t *root) {
    const json_t *notes = jsonr_array(root, n->object), *warnings = jsonr_array(root, "problems");
    jsonw_karray(j, n->name);
    for (size_t i = 0; i < json_array_size(notes); i++)
        jsonw_str(j, jsonr_text(json_array_get(notes, i), n->key));
    for (size_t i = 0; i < json_array_size(warnings); i++)
        if (json_is_string(json_array_get(warnings, i)))
            jsonw_str(j, json_string_value(json_array_get(warnings, i)));
    jsonw_end(j);
}

static void write_member(struct jsonw *j, const struct summary_name *n, const json_t *root) {
    const json_t *object = json_object_get(root, n->object);
    switch (n->kind) {
    case MODEL_NUMBER: jsonw_knum(j, n->name, jsonr_number(object, n->key) * n->scale); break;
    case STAGE_NUMBERS: write_numbers_of(j, n->name, json_object_get(object, n->key)); break;
    case OPERATOR_LIST: write_operators(j, n->name, object); break;
    case AGGREGATES: write_aggregates(j, n->name, object); break;
    case NOTES: write_notes(j, n, root); break;
    case OPERATOR_TEXT:
    case OPERATOR_NUMBER: break; /* members of an operator */
    }
}

static void write_report(struct request *q, const json_t *root) {
    struct jsonw j;
    http_json(q, 200, "");
    jsonw_start(&j, &q->out, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_kstr(&j, "run_id", q->arguments[0]);
    for (size_t i = 0; i < COUNTOF(names); i++) write_member(&j, &names[i], root);
    jsonw_end(&j);
    jsonw_finish(&j);
}

void api_get_report_summary(struct request *q) {
    struct history_run run;
    struct err err;
    struct history *h = request_history(q);
    if (!h) return;
    if (api_find_run(q, h, q->arguments[0], &run)) {
        int fd = run.here && !run.missing ? api_open_artifact(h, &run, "metrics.json") : -1;
        char *path = xasprintf("/proc/self/fd/%d", fd);
        struct saved_metrics *m = fd >= 0 ? saved_metrics_load_untrusted(path, NULL, &err) : NULL;
        if (m)
            write_report(q, m->root);
        else
            http_problem(q, 409, "run '%s' has no readable metrics.json here", run.name);
        saved_metrics_close(m);
        free(path);
        if (fd >= 0) close(fd);
        history_run_free(&run);
    }
    request_done(q, h);
}
