/* Comparison of runs. */
#include "base/html.h"
#include "base/util.h"
#include "report/compare.h"
#include "report/compare_columns.h"
#include "report/html.h"
#include "serve/api.h"
#include "serve/page_parts.h"
#include "serve/pages.h"
#include "serve/server.h"

#define WORK_SHOWN 25 /* kernels and operators with the largest changes */

static const char *verdict_class(const struct compare_row *r) {
    return r->verdict == COMPARE_SLOWER   ? "worse-text"
           : r->verdict == COMPARE_FASTER ? "better-text"
                                          : "soft";
}

static void add_rows(struct strbuf *out, const struct column_set *set, const struct compare_row *rows,
                     size_t n) {
    struct strbuf verdict = STRBUF_INIT;
    for (size_t i = 0; i < n; i++) {
        strbuf_addf(out, "<tr%s>", rows[i].parent ? " class=\"sub\"" : "");
        part_cells(out, set, &rows[i], 0, set->n - 1);
        strbuf_reset(&verdict); /* the last column */
        column_show(set->v[set->n - 1].column, &(struct column_row){ .item = &rows[i] }, &verdict);
        strbuf_addf(out, "<td class=\"verdict %s\">", verdict_class(&rows[i]));
        html_escape(out, verdict.buf);
        strbuf_addstr(out, "</td></tr>\n");
    }
    strbuf_free(&verdict);
}

static void add_stages(struct strbuf *out, const struct comparison *c) {
    struct column_set set;
    column_set_init(&set, &compare_row_columns, 1, COLUMN_DOC_HTML, NULL);
    part_table_open(out, &set, "compare");
    add_rows(out, &set, c->stages.v, c->stages.n);
    add_rows(out, &set, c->figures.v, c->figures.n);
    part_table_close(out);
}

static void add_table(struct strbuf *out, const char *id, const char *heading,
                      const struct column_group *group, struct column_items items) {
    if (!items.n) return;
    html_section(out, id, heading, NULL);
    part_table(out, group, items);
    html_section_end(out);
}

/* Index of the oldest run. A run that is not in the database counts as the newest. */
static size_t find_oldest(struct history *h, const char *const *runs, size_t n) {
    size_t oldest = n - 1;
    int64_t oldest_ns = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        struct history_run run;
        struct err ignored;
        if (history_find(h, runs[i], &run, &ignored) != 1) continue;
        if (run.started_ns < oldest_ns) {
            oldest = i;
            oldest_ns = run.started_ns;
        }
        history_run_free(&run);
    }
    return oldest;
}

#define COMPARE_SELECTED 21 /* the oldest run, and 20 runs on the other side */

/* Redirects a selection ?run=A&run=B... from the list of runs: the oldest run becomes A, the others B. One
 * run alone is a 400 answer. Returns true if it has answered. */
static bool redirect_selection(struct request *q) {
    const char *runs[COMPARE_SELECTED + 1];
    size_t n = http_query_all(q, "run", runs, COUNTOF(runs));
    if (n > COMPARE_SELECTED) {
        http_problem(q, 400, "at most %d runs can be compared: one with %d others", COMPARE_SELECTED,
                     COMPARE_SELECTED - 1);
        return true;
    }
    if (n < 2) {
        if (n == 1) http_problem(q, 400, "select two or more runs");
        return n == 1;
    }
    struct history *h = request_history(q);
    if (!h) return true;
    size_t oldest = find_oldest(h, runs, n);
    request_done(q, h);
    struct strbuf to = STRBUF_INIT;
    strbuf_addstr(&to, "/compare?a=");
    page_url(&to, runs[oldest]);
    for (size_t i = 0; i < n; i++) {
        if (i == oldest) continue;
        strbuf_addstr(&to, "&b=");
        page_url(&to, runs[i]);
    }
    http_redirect(q, to.buf);
    strbuf_free(&to);
    return true;
}

/* `argument`: "a" or "b". */
static void add_side(struct request *q, const char *argument) {
    const char *names[20];
    size_t n = http_query_all(q, argument, names, COUNTOF(names));
    for (size_t i = 0; i < n; i++) {
        strbuf_addf(&q->out, "%s<a href=\"", i ? ", " : " ");
        page_run_link(&q->out, names[i]);
        strbuf_addstr(&q->out, "\">");
        html_escape(&q->out, names[i]);
        strbuf_addstr(&q->out, "</a>");
    }
}

void page_compare(struct request *q) {
    struct comparison c;
    if (redirect_selection(q)) return;
    struct compare_inputs *in = api_open_compare(q, &c);
    if (!in) return;
    struct strbuf *out = &q->out;
    page_open(q, "Compare", "runs");
    strbuf_addstr(out, "<div class=\"head\"><h1>Compare</h1><p class=\"soft\">A:");
    add_side(q, "a");
    strbuf_addstr(out, " · B:");
    add_side(q, "b");
    strbuf_addstr(out, "</p></div>\n");
    if (c.other_subject) strbuf_addstr(out, "<p class=\"notice\">The model, engine or device differs.</p>\n");
    if (c.other_work)
        strbuf_addstr(out, "<p class=\"notice\">A stage processed a different number of tokens.</p>\n");
    add_stages(out, &c);
    add_table(out, "kernels", "Kernels", &compare_kernel_columns,
              (struct column_items){ c.kernels.v, MIN(c.kernels.n, WORK_SHOWN), sizeof *c.kernels.v });
    add_table(out, "operators", "Operators", &compare_operator_columns,
              (struct column_items){ c.operators.v, MIN(c.operators.n, WORK_SHOWN), sizeof *c.operators.v });
    add_table(out, "environment", "Environment differences", &compare_env_columns,
              (struct column_items){ c.env.v, c.env.n, sizeof *c.env.v });
    page_close(q);
    api_close_compare(q, in, &c);
}
