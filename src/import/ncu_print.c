/* Prints Nsight Compute kernels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/jsonw.h"
#include "base/schema.h"
#include "base/table.h"
#include "base/units.h"
#include "base/util.h"
#include "import/ncu.h"

static void put_stalls(const struct ncu_launch *k, struct jsonw *j) {
    double pct;
    jsonw_kstr(j, "stall", ncu_top_stall(k, &pct));
    jsonw_knum(j, "stall_pct", pct);
    jsonw_kobject(j, "stalls");
    for (int m = 0; m < NCU_STALL_END; m++)
        if (!isnan(k->stall[m])) jsonw_knum(j, ncu_stall_name((enum ncu_stall)m), k->stall[m]);
    jsonw_end(j);
}

static void put_launch(const struct ncu *n, const struct ncu_launch *k, struct jsonw *j) {
    jsonw_object(j);
    jsonw_kstr(j, "name", intern_text(n->texts, k->name));
    const char *grid = intern_text(n->texts, k->grid), *block = intern_text(n->texts, k->block);
    const char *cc = intern_text(n->texts, k->cc);
    jsonw_kstr(j, "grid", grid[0] ? grid : NULL);
    jsonw_kstr(j, "block", block[0] ? block : NULL);
    jsonw_kstr(j, "cc", cc[0] ? cc : NULL);
    jsonw_ku64(j, "launches", k->launches);
    for (int m = 0; m < NCU_METRIC_END; m++) jsonw_knum(j, ncu_metric_key((enum ncu_metric)m), k->value[m]);
    jsonw_kstr(j, "bound", ncu_bound(k));
    put_stalls(k, j);
    jsonw_end(j);
}

void ncu_json(const struct ncu *n, const struct ncu_launches *classes, struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_NCU);
    jsonw_ku64(&j, "launches", n->launches.n);
    jsonw_kobject(&j, "problems");
    jsonw_ku64(&j, "bad_row", n->bad_rows);
    jsonw_ku64(&j, "not_measured", n->not_measured);
    jsonw_end(&j);
    jsonw_karray(&j, "kernels");
    for (size_t i = 0; i < classes->n; i++) put_launch(n, &classes->v[i], &j);
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_finish(&j);
}

int ncu_write_run(const struct ncu *n, const char *run_dir, struct err *err) {
    struct ncu_launches classes;
    struct strbuf out = STRBUF_INIT;
    char *path = file_join(run_dir, "ncu.json");
    ncu_classes(n, &classes);
    ncu_json(n, &classes, &out);
    int rc = file_write_atomic(path, out.buf, out.len, err);
    strbuf_free(&out);
    free(classes.v);
    free(path);
    return rc;
}

static void cell(struct table *t, double v, const char *unit) {
    if (isnan(v))
        table_cell(t, "–");
    else
        table_cell(t, "%.1f%s", v, unit);
}

static void put_row(const struct ncu *n, const struct ncu_launch *k, struct table *t) {
    static const enum ncu_metric before[] = { NCU_SM, NCU_MEMORY, NCU_DRAM },
                                 after[] = { NCU_OCCUPANCY, NCU_L1_HIT, NCU_L2_HIT };
    char rate[32], stall[64] = "–";
    double pct;
    const char *bound = ncu_bound(k), *top = ncu_top_stall(k, &pct);
    table_cell(t, "%s", intern_text(n->texts, k->name));
    table_cell(t, "%llu", (unsigned long long)k->launches);
    if (isnan(k->value[NCU_DURATION]))
        table_cell(t, "–");
    else
        table_cell(t, "%.2f", k->value[NCU_DURATION] / 1e3);
    for (size_t i = 0; i < COUNTOF(before); i++) cell(t, k->value[before[i]], "%");
    units_bytes(k->value[NCU_DRAM_RATE], rate, sizeof rate);
    table_cell(t, isnan(k->value[NCU_DRAM_RATE]) ? "%s" : "%s/s", rate);
    for (size_t i = 0; i < COUNTOF(after); i++) cell(t, k->value[after[i]], "%");
    if (top) snprintf(stall, sizeof stall, isnan(pct) ? "%s" : "%s %.0f%%", top, pct);
    table_cell(t, "%s", stall);
    table_cell(t, "%s", bound ? bound : "–");
}

void ncu_text(const struct ncu *n, const struct ncu_launches *classes, size_t top, size_t line_width,
              struct strbuf *out) {
    static const char *const heads[] = {
        "launches", "mean us", "SM", "memory", "DRAM", "DRAM rate", "achieved occupancy", "L1 hit", "L2 hit"
    };
    struct table t;
    table_init(&t);
    t.text_max_width = 60;
    t.text_line_width = line_width;
    table_column(&t, "kernel", TABLE_LEFT);
    for (size_t i = 0; i < COUNTOF(heads); i++) table_column(&t, heads[i], TABLE_RIGHT);
    table_column(&t, "stall", TABLE_LEFT);
    table_column(&t, "bound", TABLE_LEFT);
    for (size_t i = 0; i < classes->n && i < top; i++) put_row(n, &classes->v[i], &t);
    table_text(&t, out);
    table_free(&t);
}
