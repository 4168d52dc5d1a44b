/* Writes a comparison as text, Markdown or JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/columns.h"
#include "base/jsonw.h"
#include "base/schema.h"
#include "base/strlist.h"
#include "base/table.h"
#include "base/text.h"
#include "base/util.h"
#include "base/wrap.h"
#include "report/compare.h"

#define SHOWN_WORK 12
#define SHOWN_CAVEATS 4
#define CAVEAT_WIDTH 100 /* columns */
#define CELL_MAX 60      /* columns; the longest verdict has 55 */
#define AT(position) .at = { .terminal = position }

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
static struct column_value get_difference(const struct column_row *r) {
    return column_f64(row_of(r)->b - row_of(r)->a);
}
static struct column_value get_low(const struct column_row *r) {
    return column_f64(row_of(r)->a * row_of(r)->low);
}
static struct column_value get_high(const struct column_row *r) {
    return column_f64(row_of(r)->a * row_of(r)->high);
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
    { "name", "stage", COLUMN_TEXT, R(name), .data = JSON, AT(10), .show = show_name },
    { "parent", .source = R(parent), .data = JSON },
    { "unit", "unit", COLUMN_TEXT, R(unit), .data = JSON, AT(20) },
    { "a", "A", COLUMN_MS, R(a), .data = JSON, AT(30) },
    { "b", "B", COLUMN_MS, R(b), .data = JSON, AT(40) },
    { "change", "change", COLUMN_PERCENT, R(change), .data = JSON, AT(50), .show = show_change },
    { "change_ci95_low", .source = R(low), .data = JSON },
    { "change_ci95_high", .source = R(high), .data = JSON },
    { NULL, "95% CI", COLUMN_PERCENT, GET(get_nothing), AT(60), .show = show_interval },
    { "difference", .source = GET(get_difference), .data = JSON },
    { "ci95_low", .source = GET(get_low), .data = JSON },
    { "ci95_high", .source = GET(get_high), .data = JSON },
    { "smallest_believable_change", "believable", COLUMN_PERCENT, R(believable), .data = JSON, AT(70) },
    { "p_adjusted", .source = R(p), .data = JSON },
    { "a_processes", "processes", COLUMN_COUNT, R(a_processes), .data = JSON, AT(80),
      .show = show_processes },
    { "b_processes", .source = R(b_processes), .data = JSON },
    { "a_repeats", "repeats", COLUMN_COUNT, R(a_repeats), .data = JSON, AT(90), .show = show_repeats },
    { "b_repeats", .source = R(b_repeats), .data = JSON },
    { "unstable", .source = R(unstable), .data = JSON },
    { "verdict", "verdict", COLUMN_TEXT, GET(get_verdict), .data = JSON, AT(100), .show = show_verdict },
    { "reason", .source = R(reason), .data = JSON },
};
/* clang-format on */
static const struct column_group row_group = { .columns = row_columns, .n = COUNTOF(row_columns) };

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
static const struct column_group promise_group = { .columns = promise_columns,
                                                   .n = COUNTOF(promise_columns) };

/* ---- kernels and operators */

static void show_work_change(const struct column_row *r, struct strbuf *out) {
    double ms = ((const struct compare_work *)r->item)->change_ns / 1e6;
    add_signed(out, ms, text_ms_number(ms));
}

/* clang-format off */
#define W(field) FIELD(struct compare_work, field)
#define WORK_COLUMNS \
    { "a_ns", "A ms", COLUMN_NS_MS, W(a_ns), .data = JSON, AT(20) }, \
    { "b_ns", "B ms", COLUMN_NS_MS, W(b_ns), .data = JSON, AT(30) }, \
    { "change_ns", "difference ms", COLUMN_NS_MS, W(change_ns), .data = JSON, AT(40), \
      .show = show_work_change }, \
    { "a_calls", "A calls", COLUMN_COUNT, W(a_calls), .data = JSON, AT(50) }, \
    { "b_calls", "B calls", COLUMN_COUNT, W(b_calls), .data = JSON, AT(60) }
static const struct column kernel_columns[] = {
    { "name", "kernel", COLUMN_TEXT, W(name), .data = JSON, AT(10) },
    { "category", .source = W(category), .data = JSON },
    WORK_COLUMNS,
};
static const struct column operator_columns[] = {
    { "name", "operator", COLUMN_TEXT, W(name), .data = JSON, AT(10) },
    WORK_COLUMNS,
};
#define E(field) FIELD(struct compare_env, field)
static const struct column env_columns[] = {
    { "key", "what", COLUMN_TEXT, E(key), .data = JSON, AT(10) },
    { "a", "A", COLUMN_TEXT, E(a), .data = JSON, AT(20) },
    { "b", "B", COLUMN_TEXT, E(b), .data = JSON, AT(30) },
};
/* clang-format on */
static const struct column_group kernel_group = { .columns = kernel_columns, .n = COUNTOF(kernel_columns) };
static const struct column_group operator_group = { .columns = operator_columns,
                                                    .n = COUNTOF(operator_columns) };
static const struct column_group env_group = { .columns = env_columns, .n = COUNTOF(env_columns) };

#define V(field) FIELD(struct compare_caveat, field)
static const struct column caveat_columns[] = {
    { "side", "side", COLUMN_TEXT, V(side), .data = JSON },
    { "text", "caveat", COLUMN_TEXT, V(text), .data = JSON },
};
static const struct column_group caveat_group = { .columns = caveat_columns, .n = COUNTOF(caveat_columns) };

/* All items of a list. */
#define ITEMS(list) \
    (struct column_items) { (list).v, (list).n, sizeof *(list).v, NULL }

/* ---- text */

struct compare_text_form {
    bool markdown;
    size_t width; /* columns; 0: no limit */
};

/* Columns that a narrow terminal omits first. The verdict is kept. */
static const char *const least[] = { "repeats", "processes", "believable", "unit",
                                     "95% CI",  "A calls",   "B calls",    NULL };
static const char *const least_verdicts[] = { "repeats", "processes", "believable", "unit",
                                              "95% CI",  "A",         "B",          NULL };

static void print_table(struct table *t, const char *const *omitted, struct compare_text_form form,
                        const char *heading, struct strbuf *out) {
    if (table_rows(t)) {
        if (form.markdown)
            strbuf_addf(out, "## %s\n\n", heading);
        else
            wrap_text(out, heading, 0, form.width, 2);
        if (!form.markdown) table_fit(t, form.width, omitted);
        if (form.markdown)
            table_markdown(t, out);
        else
            table_text(t, out);
        strbuf_addch(out, '\n');
    }
    table_free(t);
}

static void print_items(const struct column_group *group, struct column_items items,
                        struct compare_text_form form, const char *heading, struct strbuf *out) {
    struct table t;
    columns_table(group, 1, COLUMN_DOC_TERMINAL, NULL, items, &t);
    t.text_max_width = CELL_MAX;
    print_table(&t, least, form, heading, out);
}

/* Cuts the reasons off the verdicts, and adds every verdict that had one to `reasons`, each once. */
static void shorten_verdicts(struct table *t, struct strlist *reasons) {
    size_t nc = t->heads.n, column = table_find(t, "verdict");
    for (size_t r = 0; column < nc && r < table_rows(t); r++) {
        char *cell = t->cells.v[r * nc + column], *colon = strstr(cell, ": ");
        if (!colon) continue;
        if (!strlist_has(reasons, cell)) strlist_add(reasons, "%s", cell);
        *colon = '\0';
    }
}

/* one table for both */
static void print_rows(const struct comparison *c, struct compare_text_form form, struct strbuf *out) {
    struct column_set set;
    struct table t;
    column_set_init(&set, &row_group, 1, COLUMN_DOC_TERMINAL, NULL);
    column_set_heads(&set, &t);
    for (size_t i = 0; i < c->stages.n; i++)
        column_set_cells(&set, &(struct column_row){ .item = &c->stages.v[i] }, &t);
    for (size_t i = 0; i < c->figures.n; i++)
        column_set_cells(&set, &(struct column_row){ .item = &c->figures.v[i] }, &t);
    struct strlist reasons = { 0 };
    t.text_max_width = CELL_MAX;
    if (!form.markdown && form.width) {
        table_fit(&t, form.width, least_verdicts);
        if (table_text_width(&t) > form.width) shorten_verdicts(&t, &reasons);
    }
    print_table(&t, least_verdicts, form, "Stages", out);
    for (size_t i = 0; i < reasons.n; i++) wrap_text(out, reasons.v[i], 0, form.width, 2);
    if (reasons.n) strbuf_addch(out, '\n');
    strlist_free(&reasons);
}

/* One row: its name, and the values of A and B on lines of their own. */
static void print_env_row(const struct compare_env *e, size_t width, struct strbuf *out) {
    const char *const values[] = { text_or_dash(e->a), text_or_dash(e->b) };
    strbuf_add_printable(out, e->key, strlen(e->key));
    strbuf_addch(out, '\n');
    for (size_t side = 0; side < COUNTOF(values); side++) {
        strbuf_addf(out, "  %c  ", "AB"[side]);
        wrap_text(out, values[side], 5, width, 5);
    }
}

/* A table, or a list if the table is wider than the terminal. No value is cut or omitted. */
static void print_env(const struct comparison *c, struct compare_text_form form, struct strbuf *out) {
    static const char heading[] = "Environment differences";
    struct table t;
    columns_table(&env_group, 1, COLUMN_DOC_TERMINAL, NULL, ITEMS(c->env), &t);
    if (form.markdown || !form.width || table_text_width(&t) <= form.width) {
        static const char *const none[] = { NULL };
        print_table(&t, none, form, heading, out);
        return;
    }
    table_free(&t);
    strbuf_addf(out, "%s\n", heading);
    for (size_t i = 0; i < c->env.n; i++) print_env_row(&c->env.v[i], form.width, out);
    strbuf_addch(out, '\n');
}

static void print_work(const struct comparison *c, const struct column_group *group,
                       struct column_items items, const char *what, struct compare_text_form form,
                       struct strbuf *out) {
    struct strbuf heading = STRBUF_INIT;
    strbuf_addstr(&heading, what);
    if (c->a_recorded > 1 || c->b_recorded > 1)
        strbuf_addf(&heading, ", means over the recorded runs (%zu of A, %zu of B)", c->a_recorded,
                    c->b_recorded);
    if (items.n > SHOWN_WORK) strbuf_addf(&heading, ": the %d largest changes of %zu", SHOWN_WORK, items.n);
    items.n = MIN(items.n, SHOWN_WORK);
    print_items(group, items, form, heading.buf, out);
    strbuf_free(&heading);
}

static void print_caveats(const struct comparison *c, struct compare_text_form form, struct strbuf *out) {
    for (size_t i = 0; i < MIN(c->caveats.n, SHOWN_CAVEATS); i++) {
        struct strbuf line = STRBUF_INIT;
        strbuf_addf(&line, "%s: ", c->caveats.v[i].side);
        strbuf_add_printable(&line, c->caveats.v[i].text, strlen(c->caveats.v[i].text));
        strbuf_addstr(out, form.markdown ? "- " : "! ");
        if (form.markdown) {
            text_markdown(out, line.buf);
            strbuf_addch(out, '\n');
        } else {
            wrap_text(out, line.buf, 2, form.width ? form.width : CAVEAT_WIDTH, 2);
        }
        strbuf_free(&line);
    }
    if (c->caveats.n > SHOWN_CAVEATS)
        strbuf_addf(out, "%s %zu more caveats are in the reports\n", form.markdown ? "-" : "!",
                    c->caveats.n - SHOWN_CAVEATS);
    if (c->caveats.n) strbuf_addch(out, '\n');
}

/* `end`: end of the line in Markdown */
static void print_side(const char *letter, const char *name, size_t runs, const char *end,
                       struct compare_text_form form, struct strbuf *out) {
    bool md = form.markdown;
    struct strbuf line = STRBUF_INIT;
    strbuf_addstr(&line, text_or_dash(name));
    if (runs > 1) strbuf_addf(&line, " and %zu more run%s", runs - 1, runs == 2 ? "" : "s");
    strbuf_addf(out, md ? "%s: " : "%s  ", letter);
    if (md) {
        text_markdown(out, line.buf);
        strbuf_addstr(out, end);
    } else {
        wrap_text(out, line.buf, 3, form.width, 3);
    }
    strbuf_free(&line);
}

/* A sentence with an empty line after it. */
static void print_note(const char *note, struct compare_text_form form, struct strbuf *out) {
    wrap_text(out, note, 0, form.markdown ? 0 : form.width, 0);
    strbuf_addch(out, '\n');
}

void compare_text(const struct comparison *c, enum compare_form kind, size_t width, struct strbuf *out) {
    const struct compare_text_form form = { kind == COMPARE_MARKDOWN, width };
    print_side("A", c->a_name, c->a_runs, "  \n", form, out);
    print_side("B", c->b_name, c->b_runs, "\n", form, out);
    strbuf_addch(out, '\n');
    if (c->other_subject)
        print_note("A and B use a different model, engine, device or number of ranks. Differences may come "
                   "from that.",
                   form, out);
    if (c->other_work)
        print_note("A and B processed different numbers of tokens. Compare times per token.", form, out);
    if (c->blocks > 1) {
        struct strbuf note = STRBUF_INIT;
        strbuf_addf(&note,
                    "The runs of A and B alternate. Drift between %zu blocks of neighbouring runs is "
                    "removed.",
                    c->blocks);
        print_note(note.buf, form, out);
        strbuf_free(&note);
    }
    print_caveats(c, form, out);
    print_rows(c, form, out);
    print_items(&promise_group, ITEMS(c->promises), form, "Findings fixed in B", out);
    print_work(c, &kernel_group, ITEMS(c->kernels), "Kernels", form, out);
    print_work(c, &operator_group, ITEMS(c->operators), "Operators", form, out);
    print_env(c, form, out);
}

/* ---- JSON */
static void json_items(struct jsonw *j, const char *key, const struct column_group *group,
                       struct column_items items) {
    columns_json_array(key, group, NULL, items, SIZE_MAX, j);
}

void compare_json(const struct comparison *c, struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_COMPARE);
    jsonw_kstr(&j, "a", c->a_name);
    jsonw_kstr(&j, "b", c->b_name);
    jsonw_ku64(&j, "a_runs", c->a_runs);
    jsonw_ku64(&j, "b_runs", c->b_runs);
    jsonw_ku64(&j, "a_processes", c->a_processes);
    jsonw_ku64(&j, "b_processes", c->b_processes);
    jsonw_ku64(&j, "a_recorded_runs", c->a_recorded);
    jsonw_ku64(&j, "b_recorded_runs", c->b_recorded);
    jsonw_ku64(&j, "blocks", c->blocks);
    jsonw_kbool(&j, "other_subject", c->other_subject);
    jsonw_kbool(&j, "other_work", c->other_work);
    json_items(&j, "caveats", &caveat_group, ITEMS(c->caveats));
    json_items(&j, "stages", &row_group, ITEMS(c->stages));
    json_items(&j, "figures", &row_group, ITEMS(c->figures));
    json_items(&j, "promises", &promise_group, ITEMS(c->promises));
    json_items(&j, "kernels", &kernel_group, ITEMS(c->kernels));
    json_items(&j, "operators", &operator_group, ITEMS(c->operators));
    json_items(&j, "environment", &env_group, ITEMS(c->env));
    jsonw_end(&j);
    jsonw_finish(&j);
}
