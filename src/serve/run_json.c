#include "serve/run_json.h"

#include <math.h>

#include "base/clock.h"
#include "base/schema.h"
#include "serve/run_columns.h"

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

static void write_items(struct jsonw *j, const struct column_group *group, struct column_items items) {
    jsonw_array(j);
    for (size_t i = 0; i < items.n; i++) {
        jsonw_object(j);
        columns_json(group, &(struct column_row){ .item = column_item(&items, i) }, j);
        jsonw_end(j);
    }
    jsonw_end(j);
}

/* All items of a list. */
#define ITEMS(list) \
    (struct column_items) { (list).v, (list).n, sizeof *(list).v, NULL }

void run_json_stages(struct jsonw *j, const struct run_record *r) {
    write_items(j, &run_stage_columns, ITEMS(r->stages));
}

void run_json_figures(struct jsonw *j, const struct run_record *r) {
    write_items(j, &run_measure_columns, ITEMS(r->figures));
}

void run_json_findings(struct jsonw *j, const struct run_record *r) {
    write_items(j, &run_finding_columns, ITEMS(r->findings));
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
    jsonw_key(j, "kernel_classes");
    write_items(j, &run_kernel_columns, ITEMS(r->kernels));
    jsonw_key(j, "finding_list");
    run_json_findings(j, r);
    jsonw_key(j, "environment");
    write_items(j, &run_env_columns, ITEMS(r->env));
    jsonw_end(j);
}
