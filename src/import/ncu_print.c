/* Prints Nsight Compute kernels. */
#include <math.h>
#include <stdlib.h>

#include "base/columns.h"
#include "base/file.h"
#include "base/jsonw.h"
#include "base/schema.h"
#include "base/text.h"
#include "base/util.h"
#include "import/ncu.h"

/* ---- Columns: the item is a struct ncu_launch, the context a struct ncu. */
static const struct ncu_launch *launch_of(const struct column_row *r) { return r->item; }
static const char *text_of(const struct column_row *r, uint32_t id) {
    return intern_text(((const struct ncu *)r->context)->texts, id);
}
static struct column_value known_text(const struct column_row *r, uint32_t id) {
    const char *text = text_of(r, id);
    return column_str(*text ? text : NULL);
}
static struct column_value get_name(const struct column_row *r) {
    return column_str(text_of(r, launch_of(r)->name));
}
static struct column_value get_grid(const struct column_row *r) { return known_text(r, launch_of(r)->grid); }
static struct column_value get_block(const struct column_row *r) {
    return known_text(r, launch_of(r)->block);
}
static struct column_value get_cc(const struct column_row *r) { return known_text(r, launch_of(r)->cc); }
static struct column_value get_bound(const struct column_row *r) {
    return column_str(ncu_bound(launch_of(r)));
}
static struct column_value get_stall(const struct column_row *r) {
    double percent;
    return column_str(ncu_top_stall(launch_of(r), &percent));
}
static struct column_value get_stall_percent(const struct column_row *r) {
    double percent;
    ncu_top_stall(launch_of(r), &percent);
    return column_f64(percent);
}
static void show_launches(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%llu", (unsigned long long)launch_of(r)->launches);
}
static void show_duration(const struct column_row *r, struct strbuf *out) {
    double ns = launch_of(r)->value[NCU_DURATION];
    if (!isnan(ns)) strbuf_addf(out, "%.2f", ns / 1e3);
}
static void show_rate(const struct column_row *r, struct strbuf *out) {
    double rate = launch_of(r)->value[NCU_DRAM_RATE];
    if (!isnan(rate)) strbuf_addf(out, "%s/s", text_bytes(rate).s);
}
static void show_stall(const struct column_row *r, struct strbuf *out) {
    double percent;
    const char *stall = ncu_top_stall(launch_of(r), &percent);
    if (stall) strbuf_addstr(out, stall);
    if (stall && !isnan(percent)) strbuf_addf(out, " %.0f%%", percent);
}
#define SHOW_PERCENT(metric)                                                    \
    static void show_##metric(const struct column_row *r, struct strbuf *out) { \
        double percent = launch_of(r)->value[metric];                           \
        if (!isnan(percent)) strbuf_addf(out, "%.1f%%", percent);               \
    }
SHOW_PERCENT(NCU_SM)
SHOW_PERCENT(NCU_MEMORY)
SHOW_PERCENT(NCU_DRAM)
SHOW_PERCENT(NCU_OCCUPANCY)
SHOW_PERCENT(NCU_L1_HIT)
SHOW_PERCENT(NCU_L2_HIT)

/* clang-format off */
#define V(metric) FIELD(struct ncu_launch, value[metric])
#define AT(position) .at = { .terminal = position }
static const struct column launch_columns[] = {
    { "name", "kernel", COLUMN_TEXT, GET(get_name), .data = JSON, AT(10) },
    { "grid", .source = GET(get_grid), .data = JSON },
    { "block", .source = GET(get_block), .data = JSON },
    { "cc", .source = GET(get_cc), .data = JSON },
    { "launches", "launches", COLUMN_COUNT, FIELD(struct ncu_launch, launches), .data = JSON, AT(20),
      .show = show_launches },
    { "bound", "bound", COLUMN_TEXT, GET(get_bound), .data = JSON, AT(130) },
    { "stall", "stall", COLUMN_TEXT, GET(get_stall), .data = JSON, AT(120), .show = show_stall,
      .help = "most frequent stall reason of the warps" },
    { "stall_pct", .source = GET(get_stall_percent), .data = JSON },
};
/* JSON has all metrics (ncu_metric_key()); these are shown to people. */
static const struct column metric_columns[] = {
    { NULL, "mean us", COLUMN_NS_US, V(NCU_DURATION), AT(30), .show = show_duration },
    { NULL, "SM", COLUMN_PCT, V(NCU_SM), AT(40), .show = show_NCU_SM, .help = "of the SM throughput" },
    { NULL, "memory", COLUMN_PCT, V(NCU_MEMORY), AT(50), .show = show_NCU_MEMORY },
    { NULL, "DRAM", COLUMN_PCT, V(NCU_DRAM), AT(60), .show = show_NCU_DRAM },
    { NULL, "DRAM rate", COLUMN_BYTES, V(NCU_DRAM_RATE), AT(70), .show = show_rate },
    { NULL, "achieved occupancy", COLUMN_PCT, V(NCU_OCCUPANCY), AT(80), .show = show_NCU_OCCUPANCY },
    { NULL, "L1 hit", COLUMN_PCT, V(NCU_L1_HIT), AT(90), .show = show_NCU_L1_HIT },
    { NULL, "L2 hit", COLUMN_PCT, V(NCU_L2_HIT), AT(100), .show = show_NCU_L2_HIT },
};
/* clang-format on */
static const struct column_group groups[] = {
    { .columns = launch_columns, .n = COUNTOF(launch_columns) },
    { .columns = metric_columns, .n = COUNTOF(metric_columns) },
};

/* ---- JSON */
static void put_launch(const struct ncu *n, const struct ncu_launch *k, struct jsonw *j) {
    jsonw_object(j);
    columns_json(&groups[0], &(struct column_row){ .context = n, .item = k }, j);
    for (int m = 0; m < NCU_METRIC_END; m++) jsonw_knum(j, ncu_metric_key((enum ncu_metric)m), k->value[m]);
    jsonw_kobject(j, "stalls");
    for (int m = 0; m < NCU_STALL_END; m++)
        if (!isnan(k->stall[m])) jsonw_knum(j, ncu_stall_name((enum ncu_stall)m), k->stall[m]);
    jsonw_end(j);
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

/* ---- Table */
void ncu_text(const struct ncu *n, const struct ncu_launches *classes, size_t top, size_t line_width,
              struct strbuf *out) {
    struct column_items items = { classes->v, MIN(classes->n, top), sizeof *classes->v };
    struct table t;
    columns_table(groups, COUNTOF(groups), COLUMN_DOC_TERMINAL, n, items, &t);
    t.text_max_width = 60;
    t.text_line_width = line_width;
    table_text(&t, out);
    table_free(&t);
}
