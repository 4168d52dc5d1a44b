/* The anatomy of a token, by role. */
#include <math.h>

#include "base/text.h"
#include "base/util.h"
#include "report/rows.h"

static const struct anatomy *anatomy_of(const struct view *v) { return v->a ? v->a->anatomy : NULL; }

#define R(field) FIELD(struct anatomy_role, field)
/* clang-format off */
static const struct column role_columns[] = {
    { "role", "role", COLUMN_TEXT, R(name), .data = CSV | JSON, .at = { .md = 10, .terminal = 10 } },
    { "ns_per_token", "ms per token", COLUMN_NS_MS, R(ns), .data = CSV | JSON,
      .at = { .md = 20, .terminal = 20 }, .help = "time of one step, which generates one token per request" },
    { "share", "share", COLUMN_PERCENT, R(share), .data = CSV | JSON, .at = { .md = 30, .terminal = 30 },
      .help = "share of the step's time" },
    { "bytes", "bytes", COLUMN_BYTES, R(bytes), .data = CSV | JSON, .at = { .md = 40, .terminal = 40 },
      .help = "the least the model must move in the step" },
    { "bytes_per_s", "GB/s", COLUMN_GIGA, R(bytes_per_s), .data = CSV | JSON,
      .at = { .md = 50, .terminal = 50 }, .help = "bytes / time" },
    { "roof", "of the roof", COLUMN_PERCENT, R(roof), .data = CSV | JSON, .at = { .md = 60, .terminal = 60 },
      .help = "GB/s / peak memory bandwidth" },
    { "floor_ns", "roofline ms", COLUMN_NS_MS, R(floor_ns), .data = CSV | JSON, .at = { .md = 64 },
      .help = "the least time that the model's operators of this role take on this device" },
    { "distance", "distance", COLUMN_TIMES, R(distance), .data = CSV | JSON,
      .at = { .md = 66, .terminal = 66 }, .help = "time / roofline time" },
    { "dram_pct", "DRAM measured", COLUMN_PCT, R(dram_pct), .data = CSV | JSON, .at = { .md = 70 },
      .help = "measured by hardware counters, percent of the peak" },
    { "calls", "calls", COLUMN_NUMBER, R(calls), .data = CSV | JSON, .at = { .md = 80, .terminal = 80 },
      .help = "kernels or copies per step" },
    { "single_block_calls", .source = R(single_block_calls), .data = CSV | JSON },
};
/* clang-format on */
const struct column_group rows_anatomy_columns = { .columns = role_columns, .n = COUNTOF(role_columns) };

struct column_items rows_anatomy_items(const struct view *v) {
    const struct anatomy *a = anatomy_of(v);
    if (!a) return (struct column_items){ 0 };
    return (struct column_items){ a->roles, a->nroles, sizeof *a->roles };
}

static void anatomy_table(const struct view *v, enum column_document document, size_t limit,
                          struct table *t) {
    struct column_items items = rows_anatomy_items(v);
    items.n = MIN(items.n, limit);
    view_table(&rows_anatomy_columns, 1, document, v, items, t);
    if (document != COLUMN_DOC_CSV) rows_drop_unknown(t);
}
void rows_anatomy_md(const struct view *v, struct table *t) {
    anatomy_table(v, COLUMN_DOC_MARKDOWN, SIZE_MAX, t);
}
void rows_anatomy_csv(const struct view *v, struct table *t) {
    anatomy_table(v, COLUMN_DOC_CSV, SIZE_MAX, t);
}
void rows_anatomy_terminal(const struct view *v, size_t limit, struct table *t) {
    anatomy_table(v, COLUMN_DOC_TERMINAL, limit, t);
}

void rows_anatomy_note(const struct view *v, struct strbuf *out) {
    const struct anatomy *a = anatomy_of(v);
    if (!a) return;
    if (a->unrecorded) {
        strbuf_addf(
            out,
            "A decode step with %s and %u layers takes %s: the mean of %s steps that were not recorded. "
            "The kernels are those of %s recorded steps; idle is the difference.",
            a->requests == 1 ? "one request" : "several requests", a->layers, text_ms(a->step_ns * 1e-6).s,
            text_count(a->unrecorded).s, text_count(a->steps).s);
        return;
    }
    strbuf_addf(out, "A decode step with %s and %u layers takes %s%s",
                a->requests == 1 ? "one request" : "several requests", a->layers,
                text_ms(a->step_ns * 1e-6).s,
                v->a->recognised ? "" : " on the GPU, from its first to its last kernel");
    if (a->steps == 1)
        strbuf_addf(out, ": one of %s.", text_count(a->of).s);
    else
        strbuf_addf(out, ": the mean of %s steps with the same kernels, of %s.", text_count(a->steps).s,
                    text_count(a->of).s);
}
