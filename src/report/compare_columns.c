#include "report/compare_columns.h"

#include <math.h>

#include "base/text.h"
#include "base/util.h"
#include "run/compare.h"

#define AT(position) .at = { .terminal = position }
/* also on pages and in the short table for pull requests */
#define EVERYWHERE(position) .at = { .terminal = position, .html = position, .summary = position }
#define ON_PAGES(position) .at = { .terminal = position, .html = position }

static void add_signed(struct strbuf *out, double sign, struct text t) {
    strbuf_addf(out, "%s%s", sign > 0 ? "+" : "", t.s);
}

/* ---- stages and figures */

static const struct compare_row *row_of(const struct column_row *r) { return r->item; }

static void show_name(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%s%s", row_of(r)->parent ? "  " : "", row_of(r)->name);
}
static void show_change(const struct column_row *r, struct strbuf *out) {
    add_signed(out, row_of(r)->change, text_percent(row_of(r)->change));
}
static void show_interval(const struct column_row *r, struct strbuf *out) {
    if (!isfinite(row_of(r)->low)) return;
    add_signed(out, row_of(r)->low, text_percent(row_of(r)->low));
    strbuf_addstr(out, " to ");
    add_signed(out, row_of(r)->high, text_percent(row_of(r)->high));
}
static void show_processes(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%zu / %zu", row_of(r)->a_processes, row_of(r)->b_processes);
}
static void show_repeats(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%zu / %zu", row_of(r)->a_repeats, row_of(r)->b_repeats);
}
static void show_verdict(const struct column_row *row, struct strbuf *out) {
    const struct compare_row *r = row_of(row);
    const char *unstable = r->unstable && !r->reason && isfinite(r->change) ? " (unstable)" : "";
    strbuf_addf(out, "%s%s%s%s", compare_verdict_name(r), r->reason ? ": " : "", r->reason ? r->reason : "",
                unstable);
}
static struct column_value get_verdict(const struct column_row *r) {
    return column_str(compare_verdict_name(row_of(r)));
}
static struct column_value get_nothing(const struct column_row *r) {
    (void)r;
    return column_f64(NAN);
}

/* clang-format off */
#define R(field) FIELD(struct compare_row, field)
static const struct column row_columns[] = {
    { "name", "stage", COLUMN_TEXT, R(name), .data = JSON, EVERYWHERE(10), .show = show_name },
    { "parent", .source = R(parent), .data = JSON },
    { "unit", "unit", COLUMN_TEXT, R(unit), .data = JSON, ON_PAGES(20) },
    { "a", "A", COLUMN_MS, R(a), .data = JSON, EVERYWHERE(30) },
    { "b", "B", COLUMN_MS, R(b), .data = JSON, EVERYWHERE(40) },
    { "change", "change", COLUMN_PERCENT, R(change), .data = JSON, EVERYWHERE(50), .show = show_change },
    { "change_ci95_low", .source = R(low), .data = JSON },
    { "change_ci95_high", .source = R(high), .data = JSON },
    { NULL, "95% CI", COLUMN_PERCENT, GET(get_nothing), EVERYWHERE(60), .show = show_interval },
    { "difference", .source = R(difference), .data = JSON },
    { "ci95_low", .source = R(difference_low), .data = JSON },
    { "ci95_high", .source = R(difference_high), .data = JSON },
    { "smallest_believable_change", "believable", COLUMN_PERCENT, R(believable), .data = JSON, AT(70) },
    { "p_adjusted", .source = R(p), .data = JSON },
    { "a_processes", "processes", COLUMN_COUNT, R(a_processes), .data = JSON, AT(80),
      .show = show_processes },
    { "b_processes", .source = R(b_processes), .data = JSON },
    { "a_repeats", "repeats", COLUMN_COUNT, R(a_repeats), .data = JSON, AT(90), .show = show_repeats },
    { "b_repeats", .source = R(b_repeats), .data = JSON },
    { "unstable", .source = R(unstable), .data = JSON },
    { "verdict", "verdict", COLUMN_TEXT, GET(get_verdict), .data = JSON, EVERYWHERE(100),
      .show = show_verdict },
    { "reason", .source = R(reason), .data = JSON },
};
/* clang-format on */
const struct column_group compare_row_columns = { .columns = row_columns, .n = COUNTOF(row_columns) };

/* ---- findings fixed in B */

static void show_saving(const struct column_row *r, struct strbuf *out) {
    const struct compare_promise *p = r->item;
    if (isfinite(p->low_ms))
        strbuf_addf(out, "%s to %s", text_ms_number(p->low_ms).s, text_ms_number(p->high_ms).s);
}

/* clang-format off */
#define P(field) FIELD(struct compare_promise, field)
static const struct column promise_columns[] = {
    { "stage", "stage", COLUMN_TEXT, P(stage), .data = JSON, AT(10) },
    { "rule", "finding", COLUMN_TEXT, P(rule), .data = JSON, AT(20) },
    { "bound_ms", "predicted saving ms", COLUMN_MS, P(bound_ms), .data = JSON, AT(30) },
    { "gain_ms", "measured saving ms", COLUMN_MS, P(gain_ms), .data = JSON, AT(40) },
    { "ci95_low", .source = P(low_ms), .data = JSON },
    { "ci95_high", .source = P(high_ms), .data = JSON },
    { NULL, "95% CI", COLUMN_MS, GET(get_nothing), AT(50), .show = show_saving },
};
/* clang-format on */
const struct column_group compare_promise_columns = { .columns = promise_columns,
                                                      .n = COUNTOF(promise_columns) };

/* ---- kernels and operators */

static void show_work_change(const struct column_row *r, struct strbuf *out) {
    double ms = ((const struct compare_work *)r->item)->change_ns / 1e6;
    add_signed(out, ms, text_ms_number(ms));
}

/* clang-format off */
#define W(field) FIELD(struct compare_work, field)
#define WORK_COLUMNS \
    { "a_ns", "A ms", COLUMN_NS_MS, W(a_ns), .data = JSON, ON_PAGES(20) }, \
    { "b_ns", "B ms", COLUMN_NS_MS, W(b_ns), .data = JSON, ON_PAGES(30) }, \
    { "change_ns", "difference ms", COLUMN_NS_MS, W(change_ns), .data = JSON, ON_PAGES(40), \
      .show = show_work_change }, \
    { "a_calls", "A calls", COLUMN_COUNT, W(a_calls), .data = JSON, AT(50) }, \
    { "b_calls", "B calls", COLUMN_COUNT, W(b_calls), .data = JSON, AT(60) }
static const struct column kernel_columns[] = {
    { "name", "kernel", COLUMN_NAME, W(name), .data = JSON, ON_PAGES(10) },
    { "category", .source = W(category), .data = JSON },
    WORK_COLUMNS,
};
static const struct column operator_columns[] = {
    { "name", "operator", COLUMN_NAME, W(name), .data = JSON, ON_PAGES(10) },
    WORK_COLUMNS,
};
#define E(field) FIELD(struct compare_env, field)
static const struct column env_columns[] = {
    { "key", "what", COLUMN_TEXT, E(key), .data = JSON, ON_PAGES(10) },
    { "a", "A", COLUMN_TEXT, E(a), .data = JSON, ON_PAGES(20) },
    { "b", "B", COLUMN_TEXT, E(b), .data = JSON, ON_PAGES(30) },
};
/* clang-format on */
const struct column_group compare_kernel_columns = { .columns = kernel_columns,
                                                     .n = COUNTOF(kernel_columns) };
const struct column_group compare_operator_columns = { .columns = operator_columns,
                                                       .n = COUNTOF(operator_columns) };
const struct column_group compare_env_columns = { .columns = env_columns, .n = COUNTOF(env_columns) };

#define V(field) FIELD(struct compare_caveat, field)
static const struct column caveat_columns[] = {
    { "side", "side", COLUMN_TEXT, V(side), .data = JSON },
    { "text", "caveat", COLUMN_TEXT, V(text), .data = JSON },
};
const struct column_group compare_caveat_columns = { .columns = caveat_columns,
                                                     .n = COUNTOF(caveat_columns) };
