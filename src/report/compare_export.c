/* Comparisons for other tools: JUnit XML, Markdown for pull requests, Bencher and MLflow. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "base/html.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "report/compare.h"
#include "report/compare_columns.h"

static bool is_top_stage(const struct compare_row *r) { return !r->parent; }

static void add_sentence(struct strbuf *out, const struct compare_row *r) {
    strbuf_addf(out, "%s: A %s, B %s, change %s%s", r->name, text_ms_number(r->a).s, text_ms_number(r->b).s,
                r->change > 0 ? "+" : "", text_percent(r->change).s);
    if (isfinite(r->low))
        strbuf_addf(out, " (95%% CI %s to %s)", text_percent(r->low).s, text_percent(r->high).s);
    strbuf_addf(out, ", %s", compare_verdict_name(r));
    if (r->reason) strbuf_addf(out, ": %s", r->reason);
}

/* ---- JUnit */

static bool is_judged(const struct compare_row *r) {
    return r->verdict == COMPARE_SAME || r->verdict == COMPARE_FASTER || r->verdict == COMPARE_SLOWER ||
           r->verdict == COMPARE_DIFFERENT;
}

static void junit_case(struct strbuf *out, const struct compare_row *r, const char *class_name,
                       double allowed) {
    struct strbuf text = STRBUF_INIT;
    add_sentence(&text, r);
    strbuf_addf(out, "  <testcase classname=\"inferprof.%s\" name=\"", class_name);
    if (r->parent) {
        html_escape(out, r->parent);
        strbuf_addstr(out, ".");
    }
    html_escape(out, r->name);
    const char *kind = compare_is_regression(r, allowed) ? "failure" : is_judged(r) ? NULL : "skipped";
    if (kind) {
        strbuf_addf(out, "\"><%s message=\"", kind);
        html_escape(out, text.buf);
        strbuf_addstr(out, "\"/></testcase>\n");
    } else {
        strbuf_addstr(out, "\"><system-out>");
        html_escape(out, text.buf);
        strbuf_addstr(out, "</system-out></testcase>\n");
    }
    strbuf_free(&text);
}

struct junit_counts {
    size_t tests, failures, skipped;
};

static void count_rows(const struct compare_row *v, size_t n, double allowed, struct junit_counts *c) {
    for (size_t i = 0; i < n; i++) {
        c->tests++;
        c->failures += compare_is_regression(&v[i], allowed);
        c->skipped += !is_judged(&v[i]);
    }
}

void compare_junit(const struct comparison *c, double allowed, struct strbuf *out) {
    struct junit_counts n = { 0 };
    count_rows(c->stages.v, c->stages.n, allowed, &n);
    count_rows(c->figures.v, c->figures.n, allowed, &n);
    strbuf_addf(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"inferprof compare\" tests=\"%zu\" "
        "failures=\"%zu\" skipped=\"%zu\" errors=\"0\">\n",
        n.tests, n.failures, n.skipped);
    for (size_t i = 0; i < c->stages.n; i++) junit_case(out, &c->stages.v[i], "stage", allowed);
    for (size_t i = 0; i < c->figures.n; i++) junit_case(out, &c->figures.v[i], "figure", allowed);
    strbuf_addstr(out, "</testsuite>\n");
}

/* ---- Markdown for a pull request */

static size_t count_verdict(const struct comparison *c, enum compare_verdict verdict) {
    size_t n = 0;
    for (size_t i = 0; i < c->stages.n; i++)
        n += is_top_stage(&c->stages.v[i]) && c->stages.v[i].verdict == verdict;
    return n;
}

static void github_headline(const struct comparison *c, struct strbuf *out) {
    size_t slower = count_verdict(c, COMPARE_SLOWER), faster = count_verdict(c, COMPARE_FASTER);
    size_t unclear = count_verdict(c, COMPARE_CANNOT_TELL);
    strbuf_addstr(out, "### inferprof: ");
    if (slower)
        strbuf_addf(out, ":small_red_triangle: %zu stage%s slower", slower, slower == 1 ? "" : "s");
    else if (faster)
        strbuf_addf(out, ":rocket: %zu stage%s faster", faster, faster == 1 ? "" : "s");
    else
        strbuf_addstr(out,
                      unclear ? ":grey_question: cannot tell" : ":white_check_mark: no difference shown");
    strbuf_addstr(out, "\n\n");
}

static void github_row(const struct column_set *set, const struct compare_row *r, struct strbuf *out) {
    struct column_row row = { .item = r };
    struct strbuf text = STRBUF_INIT;
    for (size_t i = 0; i < set->n; i++) {
        const struct column *c = set->v[i].column;
        bool bold = r->verdict == COMPARE_SLOWER && c->key && strcmp(c->key, "change") == 0;
        strbuf_reset(&text);
        column_show(c, &row, &text);
        strbuf_addstr(out, bold ? "| **" : "| ");
        if (column_is_text(c))
            escape_markdown(out, text.buf);
        else
            strbuf_addstr(out, text.buf);
        strbuf_addstr(out, bold ? "** " : " ");
    }
    strbuf_addstr(out, "|\n");
    strbuf_free(&text);
}

static void github_heads(const struct column_set *set, struct strbuf *out) {
    for (size_t i = 0; i < set->n; i++) strbuf_addf(out, "| %s ", set->v[i].column->heading);
    strbuf_addstr(out, "|\n");
    for (size_t i = 0; i < set->n; i++)
        strbuf_addstr(out, column_is_text(set->v[i].column) ? "|---" : "|---:");
    strbuf_addstr(out, "|\n");
}

void compare_github(const struct comparison *c, struct strbuf *out) {
    struct column_set set;
    column_set_init(&set, &compare_row_columns, 1, COLUMN_DOC_SUMMARY, NULL);
    github_headline(c, out);
    github_heads(&set, out);
    for (size_t i = 0; i < c->stages.n; i++)
        if (is_top_stage(&c->stages.v[i])) github_row(&set, &c->stages.v[i], out);
    for (size_t i = 0; i < c->figures.n; i++) github_row(&set, &c->figures.v[i], out);
    strbuf_addstr(out,
                  "\n<details><summary>All stages, kernels, operators and the environment</summary>\n\n");
    compare_text(c, COMPARE_MARKDOWN, 0, out);
    strbuf_addstr(out, "\n</details>\n");
}

/* ---- Bencher: {"benchmark": {"measure": {"value", "lower_value", "upper_value"}}} */

static const char *measure_name(const struct compare_row *r) {
    return strcmp(r->unit, "ms") == 0 ? "latency" : strcmp(r->unit, "tok/s") == 0 ? "throughput" : r->unit;
}

/* Bencher's latency is in nanoseconds. */
static double measure_scale(const struct compare_row *r) { return strcmp(r->unit, "ms") == 0 ? 1e6 : 1; }

static void bencher_rows(const struct compare_row *v, size_t n, struct jsonw *j) {
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i].b)) continue;
        char name[256];
        snprintf(name, sizeof name, "%s%s%s", v[i].parent ? v[i].parent : "", v[i].parent ? "." : "",
                 v[i].name);
        jsonw_kobject(j, name);
        jsonw_kobject(j, measure_name(&v[i]));
        jsonw_knum(j, "value", v[i].b * measure_scale(&v[i]));
        if (isfinite(v[i].low)) { /* interval of B */
            jsonw_knum(j, "lower_value", v[i].b_low * measure_scale(&v[i]));
            jsonw_knum(j, "upper_value", v[i].b_high * measure_scale(&v[i]));
        }
        jsonw_end(j);
        jsonw_end(j);
    }
}

void compare_bencher(const struct comparison *c, struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    bencher_rows(c->stages.v, c->stages.n, &j);
    bencher_rows(c->figures.v, c->figures.n, &j);
    jsonw_end(&j);
    jsonw_finish(&j);
}

/* ---- MLflow: body of runs/log-batch */

static void mlflow_name(const struct compare_row *r, const char *ending, char *out, size_t cap) {
    snprintf(out, cap, "%s%s%s%s", r->parent ? r->parent : "", r->parent ? "/" : "", r->name, ending);
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. /";
    for (char *p = out; *p; p++)
        if (!strchr(allowed, *p)) *p = '_';
}

static void mlflow_metric(struct jsonw *j, const struct compare_row *r, const char *ending, double value,
                          uint64_t timestamp_ms) {
    char name[240];
    if (!isfinite(value)) return;
    mlflow_name(r, ending, name, sizeof name);
    jsonw_object(j);
    jsonw_kstr(j, "key", name);
    jsonw_knum(j, "value", value);
    jsonw_ku64(j, "timestamp", timestamp_ms);
    jsonw_ku64(j, "step", 0);
    jsonw_end(j);
}

static void mlflow_rows(const struct compare_row *v, size_t n, struct jsonw *j, uint64_t timestamp_ms) {
    for (size_t i = 0; i < n; i++) {
        mlflow_metric(j, &v[i], "", v[i].b, timestamp_ms);
        mlflow_metric(j, &v[i], ".change", v[i].change, timestamp_ms);
    }
}

void compare_mlflow(const struct comparison *c, const char *run_id, uint64_t timestamp_ms,
                    struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "run_id", run_id);
    jsonw_karray(&j, "metrics");
    mlflow_rows(c->stages.v, c->stages.n, &j, timestamp_ms);
    mlflow_rows(c->figures.v, c->figures.n, &j, timestamp_ms);
    jsonw_end(&j);
    jsonw_karray(&j, "params");
    const char *pairs[] = { "inferprof.baseline", c->a_name, "inferprof.run", c->b_name };
    for (size_t i = 0; i < 4; i += 2) {
        jsonw_object(&j);
        jsonw_kstr(&j, "key", pairs[i]);
        jsonw_kstr(&j, "value", pairs[i + 1] ? pairs[i + 1] : "");
        jsonw_end(&j);
    }
    jsonw_end(&j);
    jsonw_karray(&j, "tags");
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_finish(&j);
}
