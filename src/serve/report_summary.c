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

/* Names of the contract, and the members of metrics.json. */
static const struct {
    const char *name, *object, *key;
} numbers[] = {
    { "mfu_model_level", "model", "mfu" },
    { "mbu_model_level", "model", "mbu" },
};
/* Name in the contract, key in metrics.json, and the factor to the contract's unit. */
static const struct {
    const char *name, *key;
    double scale;
} operator_numbers[] = {
    { "total_time_ms", "total_ns", 1e-6 },
    { "cuda_time_ms", "device_ns", 1e-6 },
    { "calls", "calls", 1 },
};

static double total_ns(const json_t *operator_) {
    double v = jsonr_number(operator_, "total_ns");
    return isfinite(v) ? v : -1;
}

static int by_total(const void *a, const void *b) {
    double x = total_ns(*(json_t *const *)a), y = total_ns(*(json_t *const *)b);
    return x < y ? 1 : x > y ? -1 : 0;
}

static void write_operators(struct jsonw *j, const json_t *list) {
    size_t n = json_array_size(list);
    json_t **sorted = xcalloc(n + 1, sizeof *sorted);
    for (size_t i = 0; i < n; i++) sorted[i] = json_array_get(list, i);
    if (n) qsort(sorted, n, sizeof *sorted, by_total);
    jsonw_karray(j, "top_operators");
    for (size_t i = 0; i < MIN(n, TOP_OPERATORS); i++) {
        jsonw_object(j);
        jsonw_kstr(j, "op_name", jsonr_text(sorted[i], "name"));
        for (size_t k = 0; k < COUNTOF(operator_numbers); k++)
            jsonw_knum(j, operator_numbers[k].name,
                       jsonr_number(sorted[i], operator_numbers[k].key) * operator_numbers[k].scale);
        jsonw_end(j);
    }
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
static void write_aggregates(struct jsonw *j, const json_t *object) {
    const char *key;
    json_t *value;
    jsonw_kobject(j, "aggregates");
    json_object_foreach((json_t *)object, key, value) {
        if (!json_is_object(value) || !json_object_get(value, "mean")) continue;
        jsonw_kobject(j, key);
        jsonw_knum(j, "mean", jsonr_number(value, "mean"));
        jsonw_knum(j, "std", jsonr_number(value, "std"));
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_notes(struct jsonw *j, const json_t *root) {
    const json_t *notes = jsonr_array(root, "notes"), *warnings = jsonr_array(root, "problems");
    jsonw_karray(j, "notes");
    for (size_t i = 0; i < json_array_size(notes); i++)
        jsonw_str(j, jsonr_text(json_array_get(notes, i), "text"));
    for (size_t i = 0; i < json_array_size(warnings); i++)
        if (json_is_string(json_array_get(warnings, i)))
            jsonw_str(j, json_string_value(json_array_get(warnings, i)));
    jsonw_end(j);
}

static void write_report(struct request *q, const json_t *root) {
    struct jsonw j;
    const json_t *aggregates = json_object_get(root, "aggregates");
    http_json(q, 200, "");
    jsonw_start(&j, &q->out, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_kstr(&j, "run_id", q->arguments[0]);
    for (size_t i = 0; i < COUNTOF(numbers); i++)
        jsonw_knum(&j, numbers[i].name,
                   jsonr_number(json_object_get(root, numbers[i].object), numbers[i].key));
    write_numbers_of(&j, "mfu_per_stage", json_object_get(aggregates, "mfu_stage"));
    write_operators(&j, jsonr_array(root, "operators"));
    write_aggregates(&j, aggregates);
    write_notes(&j, root);
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
