/* Writes a comparison as text, Markdown or JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/schema.h"
#include "base/strlist.h"
#include "base/table.h"
#include "base/text.h"
#include "base/util.h"
#include "base/wrap.h"
#include "report/compare.h"
#include "report/compare_columns.h"

#define SHOWN_WORK 12
#define SHOWN_CAVEATS 4
#define CAVEAT_WIDTH 100 /* columns */
#define CELL_MAX 60      /* columns; the longest verdict has 55 */

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

/* Drops columns until the table fits. A value of B without that of A would be no comparison. */
static void fit_both_sides(struct table *t, size_t width, const char *const *omitted) {
    static const char *const sides[][2] = { { "A calls", "B calls" }, { "A", "B" } };
    bool had[COUNTOF(sides)];
    for (size_t i = 0; i < COUNTOF(sides); i++) had[i] = table_find(t, sides[i][0]) < t->heads.n;
    table_fit(t, width, omitted);
    for (size_t i = 0; i < COUNTOF(sides); i++) {
        size_t b = table_find(t, sides[i][1]);
        if (had[i] && table_find(t, sides[i][0]) == t->heads.n && b < t->heads.n) table_drop(t, b);
    }
}

static void print_table(struct table *t, const char *const *omitted, struct compare_text_form form,
                        const char *heading, struct strbuf *out) {
    if (table_rows(t)) {
        if (form.markdown)
            strbuf_addf(out, "## %s\n\n", heading);
        else
            wrap_text(out, heading, 0, form.width, 2);
        if (!form.markdown) fit_both_sides(t, form.width, omitted);
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
    column_set_init(&set, &compare_row_columns, 1, COLUMN_DOC_TERMINAL, NULL);
    column_set_heads(&set, &t);
    for (size_t i = 0; i < c->stages.n; i++)
        column_set_cells(&set, &(struct column_row){ .item = &c->stages.v[i] }, &t);
    for (size_t i = 0; i < c->figures.n; i++)
        column_set_cells(&set, &(struct column_row){ .item = &c->figures.v[i] }, &t);
    struct strlist reasons = { 0 };
    t.text_max_width = CELL_MAX;
    if (!form.markdown && form.width) {
        fit_both_sides(&t, form.width, least);
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
    columns_table(&compare_env_columns, 1, COLUMN_DOC_TERMINAL, NULL, ITEMS(c->env), &t);
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
    print_items(&compare_promise_columns, ITEMS(c->promises), form, "Findings fixed in B", out);
    print_work(c, &compare_kernel_columns, ITEMS(c->kernels), "Kernels", form, out);
    print_work(c, &compare_operator_columns, ITEMS(c->operators), "Operators", form, out);
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
    json_items(&j, "caveats", &compare_caveat_columns, ITEMS(c->caveats));
    json_items(&j, "stages", &compare_row_columns, ITEMS(c->stages));
    json_items(&j, "figures", &compare_row_columns, ITEMS(c->figures));
    json_items(&j, "promises", &compare_promise_columns, ITEMS(c->promises));
    json_items(&j, "kernels", &compare_kernel_columns, ITEMS(c->kernels));
    json_items(&j, "operators", &compare_operator_columns, ITEMS(c->operators));
    json_items(&j, "environment", &compare_env_columns, ITEMS(c->env));
    jsonw_end(&j);
    jsonw_finish(&j);
}
