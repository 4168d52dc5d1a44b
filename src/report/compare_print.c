/* Writes a comparison as text, Markdown or JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/table.h"
#include "base/util.h"
#include "report/compare.h"
#include "report/text.h"

#define SHOWN_WORK 12

static struct text signed_percent(double fraction) {
    struct text t = text_percent(fraction), s = { "" };
    snprintf(s.s, sizeof s.s, "%s%.30s", fraction > 0 ? "+" : "", t.s);
    return s;
}

static struct text signed_ms(double ms) {
    struct text t = text_ms_number(ms), s = { "" };
    snprintf(s.s, sizeof s.s, "%s%.30s", ms > 0 ? "+" : "", t.s);
    return s;
}

static void print_table(struct table *t, enum compare_form form, const char *heading, struct strbuf *out) {
    if (table_rows(t)) {
        strbuf_addf(out, form == COMPARE_MARKDOWN ? "## %s\n\n" : "%s\n", heading);
        t->text_max_width = 60; /* the longest verdict has 55 */
        if (form == COMPARE_MARKDOWN)
            table_markdown(t, out);
        else
            table_text(t, out);
        strbuf_addch(out, '\n');
    }
    table_free(t);
}

static void verdict_cell(struct table *t, const struct compare_row *r) {
    const char *unstable = r->unstable && !r->reason && isfinite(r->change) ? " (unstable)" : "";
    table_cell(t, "%s%s%s%s", compare_verdict_name(r), r->reason ? ": " : "", r->reason ? r->reason : "",
               unstable);
}

static void row_cells(struct table *t, const struct compare_row *r) {
    table_cell(t, "%s%s", r->parent ? "  " : "", r->name);
    table_cell(t, "%s", r->unit);
    table_cell(t, "%s", text_ms_number(r->a).s);
    table_cell(t, "%s", text_ms_number(r->b).s);
    table_cell(t, "%s", signed_percent(r->change).s);
    if (isfinite(r->low))
        table_cell(t, "%s to %s", signed_percent(r->low).s, signed_percent(r->high).s);
    else
        table_cell(t, "%s", text_or_dash(NULL));
    table_cell(t, "%s", text_percent(r->believable).s);
    table_cell(t, "%zu / %zu", r->a_processes, r->b_processes);
    table_cell(t, "%zu / %zu", r->a_repeats, r->b_repeats);
    verdict_cell(t, r);
}

static void print_rows(const struct comparison *c, enum compare_form form, struct strbuf *out) {
    struct table t;
    table_init(&t);
    table_column(&t, "stage", TABLE_LEFT);
    table_column(&t, "unit", TABLE_LEFT);
    table_column(&t, "A", TABLE_RIGHT);
    table_column(&t, "B", TABLE_RIGHT);
    table_column(&t, "change", TABLE_RIGHT);
    table_column(&t, "95% CI", TABLE_RIGHT);
    table_column(&t, "believable", TABLE_RIGHT);
    table_column(&t, "processes", TABLE_RIGHT);
    table_column(&t, "repeats", TABLE_RIGHT);
    table_column(&t, "verdict", TABLE_LEFT);
    for (size_t i = 0; i < c->stages.n; i++) row_cells(&t, &c->stages.v[i]);
    for (size_t i = 0; i < c->figures.n; i++) row_cells(&t, &c->figures.v[i]);
    print_table(&t, form, "Stages", out);
}

static void print_promises(const struct comparison *c, enum compare_form form, struct strbuf *out) {
    struct table t;
    table_init(&t);
    table_column(&t, "stage", TABLE_LEFT);
    table_column(&t, "finding", TABLE_LEFT);
    table_column(&t, "predicted saving ms", TABLE_RIGHT);
    table_column(&t, "measured saving ms", TABLE_RIGHT);
    table_column(&t, "95% CI", TABLE_RIGHT);
    for (size_t i = 0; i < c->promises.n; i++) {
        const struct compare_promise *p = &c->promises.v[i];
        table_cell(&t, "%s", p->stage);
        table_cell(&t, "%s", p->rule);
        table_cell(&t, "%s", text_ms_number(p->bound_ms).s);
        table_cell(&t, "%s", text_ms_number(p->gain_ms).s);
        if (isfinite(p->low_ms))
            table_cell(&t, "%s to %s", text_ms_number(p->low_ms).s, text_ms_number(p->high_ms).s);
        else
            table_cell(&t, "%s", text_or_dash(NULL));
    }
    print_table(&t, form, "Findings fixed in B", out);
}

static void print_work(const struct compare_work *v, size_t n, const char *what, enum compare_form form,
                       struct strbuf *out) {
    struct table t;
    char heading[96];
    table_init(&t);
    table_column(&t, what, TABLE_LEFT);
    table_column(&t, "A ms", TABLE_RIGHT);
    table_column(&t, "B ms", TABLE_RIGHT);
    table_column(&t, "difference ms", TABLE_RIGHT);
    table_column(&t, "A calls", TABLE_RIGHT);
    table_column(&t, "B calls", TABLE_RIGHT);
    for (size_t i = 0; i < MIN(n, SHOWN_WORK); i++) {
        table_cell(&t, "%s", v[i].name);
        table_cell(&t, "%s", text_ms_number(v[i].a_ns / 1e6).s);
        table_cell(&t, "%s", text_ms_number(v[i].b_ns / 1e6).s);
        table_cell(&t, "%s", signed_ms(v[i].change_ns / 1e6).s);
        table_cell(&t, "%s", text_num(v[i].a_calls, 0).s);
        table_cell(&t, "%s", text_num(v[i].b_calls, 0).s);
    }
    const char *many = what[0] == 'k' ? "Kernels" : "Operators";
    snprintf(heading, sizeof heading, n > SHOWN_WORK ? "%s: the %d largest changes of %zu" : "%s", many,
             SHOWN_WORK, n);
    print_table(&t, form, heading, out);
}

static void print_env(const struct comparison *c, enum compare_form form, struct strbuf *out) {
    struct table t;
    table_init(&t);
    table_column(&t, "what", TABLE_LEFT);
    table_column(&t, "A", TABLE_LEFT);
    table_column(&t, "B", TABLE_LEFT);
    for (size_t i = 0; i < c->env.n; i++) {
        table_cell(&t, "%s", c->env.v[i].key);
        table_cell(&t, "%s", text_or_dash(c->env.v[i].a));
        table_cell(&t, "%s", text_or_dash(c->env.v[i].b));
    }
    print_table(&t, form, "Environment differences", out);
}

static void print_side(const char *letter, const char *name, size_t runs, enum compare_form form,
                       struct strbuf *out) {
    bool md = form == COMPARE_MARKDOWN;
    strbuf_addf(out, md ? "%s: " : "%s  ", letter);
    md ? text_markdown(out, text_or_dash(name))
       : strbuf_add_printable(out, text_or_dash(name), strlen(text_or_dash(name)));
    if (runs > 1) strbuf_addf(out, " and %zu more run%s", runs - 1, runs == 2 ? "" : "s");
}

void compare_text(const struct comparison *c, enum compare_form form, struct strbuf *out) {
    print_side("A", c->a_name, c->a_runs, form, out);
    strbuf_addstr(out, form == COMPARE_MARKDOWN ? "  \n" : "\n");
    print_side("B", c->b_name, c->b_runs, form, out);
    strbuf_addstr(out, "\n\n");
    if (c->other_subject)
        strbuf_addstr(out,
                      "A and B use a different model, engine or device. Differences may come from that.\n\n");
    if (c->other_work)
        strbuf_addstr(out, "A and B processed different numbers of tokens. Compare times per token.\n\n");
    print_rows(c, form, out);
    print_promises(c, form, out);
    print_work(c->kernels.v, c->kernels.n, "kernel", form, out);
    print_work(c->operators.v, c->operators.n, "operator", form, out);
    print_env(c, form, out);
}

/* ---- JSON */
static void json_row(struct jsonw *j, const struct compare_row *r) {
    jsonw_object(j);
    jsonw_kstr(j, "name", r->name);
    jsonw_kstr(j, "parent", r->parent);
    jsonw_kstr(j, "unit", r->unit);
    jsonw_knum(j, "a", r->a);
    jsonw_knum(j, "b", r->b);
    jsonw_knum(j, "change", r->change);
    jsonw_knum(j, "change_ci95_low", r->low);
    jsonw_knum(j, "change_ci95_high", r->high);
    jsonw_knum(j, "difference", r->b - r->a);
    jsonw_knum(j, "ci95_low", r->a * r->low);
    jsonw_knum(j, "ci95_high", r->a * r->high);
    jsonw_knum(j, "smallest_believable_change", r->believable);
    jsonw_knum(j, "p_adjusted", r->p);
    jsonw_ku64(j, "a_processes", r->a_processes);
    jsonw_ku64(j, "b_processes", r->b_processes);
    jsonw_ku64(j, "a_repeats", r->a_repeats);
    jsonw_ku64(j, "b_repeats", r->b_repeats);
    jsonw_kbool(j, "unstable", r->unstable);
    jsonw_kstr(j, "verdict", compare_verdict_name(r));
    jsonw_kstr(j, "reason", r->reason);
    jsonw_end(j);
}

static void json_work(struct jsonw *j, const char *key, const struct compare_work *v, size_t n) {
    jsonw_karray(j, key);
    for (size_t i = 0; i < n; i++) {
        jsonw_object(j);
        jsonw_kstr(j, "name", v[i].name);
        if (v[i].category) jsonw_kstr(j, "category", v[i].category);
        jsonw_knum(j, "a_ns", v[i].a_ns);
        jsonw_knum(j, "b_ns", v[i].b_ns);
        jsonw_knum(j, "change_ns", v[i].change_ns);
        jsonw_knum(j, "a_calls", v[i].a_calls);
        jsonw_knum(j, "b_calls", v[i].b_calls);
        jsonw_end(j);
    }
    jsonw_end(j);
}

void compare_json(const struct comparison *c, struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", "inferprof-compare");
    /* version 2: values over processes; "difference" is the difference of medians */
    jsonw_ku64(&j, "schema_version", 2);
    jsonw_kstr(&j, "a", c->a_name);
    jsonw_kstr(&j, "b", c->b_name);
    jsonw_ku64(&j, "a_runs", c->a_runs);
    jsonw_ku64(&j, "b_runs", c->b_runs);
    jsonw_ku64(&j, "a_processes", c->a_processes);
    jsonw_ku64(&j, "b_processes", c->b_processes);
    jsonw_kbool(&j, "other_subject", c->other_subject);
    jsonw_kbool(&j, "other_work", c->other_work);
    jsonw_karray(&j, "stages");
    for (size_t i = 0; i < c->stages.n; i++) json_row(&j, &c->stages.v[i]);
    jsonw_end(&j);
    jsonw_karray(&j, "figures");
    for (size_t i = 0; i < c->figures.n; i++) json_row(&j, &c->figures.v[i]);
    jsonw_end(&j);
    jsonw_karray(&j, "promises");
    for (size_t i = 0; i < c->promises.n; i++) {
        const struct compare_promise *p = &c->promises.v[i];
        jsonw_object(&j);
        jsonw_kstr(&j, "stage", p->stage);
        jsonw_kstr(&j, "rule", p->rule);
        jsonw_knum(&j, "bound_ms", p->bound_ms);
        jsonw_knum(&j, "gain_ms", p->gain_ms);
        jsonw_knum(&j, "ci95_low", p->low_ms);
        jsonw_knum(&j, "ci95_high", p->high_ms);
        jsonw_end(&j);
    }
    jsonw_end(&j);
    json_work(&j, "kernels", c->kernels.v, c->kernels.n);
    json_work(&j, "operators", c->operators.v, c->operators.n);
    jsonw_karray(&j, "environment");
    for (size_t i = 0; i < c->env.n; i++) {
        jsonw_object(&j);
        jsonw_kstr(&j, "key", c->env.v[i].key);
        jsonw_kstr(&j, "a", c->env.v[i].a);
        jsonw_kstr(&j, "b", c->env.v[i].b);
        jsonw_end(&j);
    }
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_finish(&j);
}
