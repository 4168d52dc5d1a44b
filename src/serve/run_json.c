#include "serve/run_json.h"

#include <math.h>

#include "base/clock.h"
#include "serve/run_columns.h"
#include "base/schema.h"

void run_json_time(struct jsonw *j, const char *key, int64_t ns) {
    char text[40];
    jsonw_kstr(j, key,
               ns > 0 ? clock_format((uint64_t)ns, "%Y-%m-%dT%H:%M:%SZ", 1, text, sizeof text) : NULL);
}

static void write_tags(struct jsonw *j, const struct strlist *tags) {
    jsonw_karray(j, "tags");
    for (size_t i = 0; i < tags->n; i++) jsonw_str(j, tags->v[i]);
    jsonw_end(j);
}

static void write_stage_values(struct jsonw *j, const struct history_run *run) {
    jsonw_kobject(j, "stage");
    columns_json(&run_stage_figure_columns, &(struct column_row){ .item = run }, j);
    jsonw_end(j);
}

static void write_summary_members(struct jsonw *j, const struct history_run *run) {
    struct column_row row = { .item = run };
    columns_json(&run_name_columns, &row, j);
    run_json_time(j, "started", run->started_ns);
    columns_json(&run_figure_columns, &row, j);
    columns_json(&run_detail_columns, &row, j);
}

void run_json_summary(struct jsonw *j, const struct history_run *run) {
    jsonw_object(j);
    write_summary_members(j, run);
    write_stage_values(j, run);
    write_tags(j, &run->tags);
    jsonw_end(j);
}

void run_json_page(struct jsonw *j, const struct history_page *page) {
    jsonw_object(j);
    jsonw_kstr(j, "schema", SCHEMA_RUNS);
    jsonw_karray(j, "runs");
    for (size_t i = 0; i < page->n; i++) run_json_summary(j, &page->v[i]);
    jsonw_end(j);
    jsonw_kstr(j, "next", page->next);
    jsonw_knum(j, "total", page->total >= 0 ? (double)page->total : NAN);
    jsonw_end(j);
}

void run_json_stages(struct jsonw *j, const struct run_record *r) {
    jsonw_array(j);
    for (size_t i = 0; i < r->stages.n; i++) {
        jsonw_object(j);
        columns_json(&run_stage_columns, &(struct column_row){ .item = &r->stages.v[i] }, j);
        jsonw_end(j);
    }
    jsonw_end(j);
}

void run_json_figures(struct jsonw *j, const struct run_record *r) {
    jsonw_array(j);
    for (size_t i = 0; i < r->figures.n; i++) {
        const struct record_figure *f = &r->figures.v[i];
        jsonw_object(j);
        jsonw_kstr(j, "key", f->key);
        jsonw_kstr(j, "name", f->name);
        jsonw_kstr(j, "unit", f->unit);
        jsonw_kbool(j, "larger_is_better", f->larger_is_better);
        jsonw_knum(j, "median", f->median);
        jsonw_knum(j, "mean", f->mean);
        jsonw_knum(j, "std", f->std);
        jsonw_knum(j, "ci95_low", f->ci95_low);
        jsonw_knum(j, "ci95_high", f->ci95_high);
        jsonw_knum(j, "repeats", f->repeats);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_kernels(struct jsonw *j, const struct run_record *r) {
    jsonw_karray(j, "kernel_classes");
    for (size_t i = 0; i < r->kernels.n; i++) {
        const struct record_kernel *k = &r->kernels.v[i];
        jsonw_object(j);
        jsonw_kstr(j, "name", k->name);
        jsonw_kstr(j, "category", k->category);
        jsonw_kstr(j, "library", k->library);
        jsonw_kstr(j, "stage", k->stage);
        jsonw_knum(j, "calls", k->calls);
        jsonw_knum(j, "owned_ns", k->owned_ns);
        jsonw_knum(j, "share", k->share);
        jsonw_end(j);
    }
    jsonw_end(j);
}

void run_json_findings(struct jsonw *j, const struct run_record *r) {
    jsonw_array(j);
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct record_finding *f = &r->findings.v[i];
        jsonw_object(j);
        jsonw_kstr(j, "rule", f->rule);
        jsonw_kstr(j, "stage", f->stage);
        jsonw_kstr(j, "title", f->title);
        jsonw_kstr(j, "evidence", f->evidence);
        jsonw_kstr(j, "advice", f->advice);
        jsonw_kstr(j, "confidence", f->confidence);
        jsonw_knum(j, "saving_ms", f->saving_ms);
        jsonw_knum(j, "saving_percent", f->saving_percent);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_environment(struct jsonw *j, const struct run_record *r) {
    jsonw_karray(j, "environment");
    for (size_t i = 0; i < r->env.n; i++) {
        jsonw_object(j);
        jsonw_kstr(j, "group", r->env.v[i].kind);
        jsonw_kstr(j, "key", r->env.v[i].key);
        jsonw_kstr(j, "value", r->env.v[i].value);
        jsonw_end(j);
    }
    jsonw_end(j);
}

void run_json_details(struct jsonw *j, const struct history_run *run, const struct run_record *r) {
    jsonw_object(j);
    jsonw_kstr(j, "schema", SCHEMA_RUN);
    write_summary_members(j, run);
    jsonw_kstr(j, "verdict", run->verdict);
    jsonw_kstr(j, "command", run->command);
    write_tags(j, &r->tags);
    jsonw_key(j, "stages");
    run_json_stages(j, r);
    jsonw_key(j, "figures");
    run_json_figures(j, r);
    write_kernels(j, r);
    jsonw_key(j, "finding_list");
    run_json_findings(j, r);
    write_environment(j, r);
    jsonw_end(j);
}
