/* Comparison of runs. */
#include <math.h>
#include <stdio.h>

#include "base/html.h"
#include "base/util.h"
#include "report/compare.h"
#include "report/html.h"
#include "serve/api.h"
#include "serve/page_parts.h"
#include "serve/pages.h"
#include "serve/server.h"

static const char *verdict_class(const struct compare_row *r) {
    return r->verdict == COMPARE_SLOWER   ? "worse-text"
           : r->verdict == COMPARE_FASTER ? "better-text"
                                          : "soft";
}

static void add_compare_rows(struct strbuf *out, const struct compare_row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct compare_row *r = &rows[i];
        char interval[96] = "–";
        if (isfinite(r->low))
            snprintf(interval, sizeof interval, "%s to %s", text_percent(r->low).s, text_percent(r->high).s);
        strbuf_addf(out, "<tr%s>", r->parent ? " class=\"sub\"" : "");
        part_cell(out, r->name);
        part_cell(out, r->unit);
        part_number(out, text_ms_number(r->a).s);
        part_number(out, text_ms_number(r->b).s);
        char change[48];
        snprintf(change, sizeof change, "%s%s", r->change > 0 ? "+" : "", text_percent(r->change).s);
        part_number(out, change);
        part_number(out, interval);
        strbuf_addf(out, "<td class=\"verdict %s\">%s%s", verdict_class(r), compare_verdict_name(r),
                    r->reason ? ": " : "");
        html_escape(out, r->reason);
        strbuf_addstr(out, "</td></tr>\n");
    }
}

static void add_work(struct strbuf *out, const char *id, const char *heading, const struct compare_work *v,
                     size_t n) {
    if (!n) return;
    html_section(out, id, heading, NULL);
    strbuf_addstr(
        out,
        "<div class=\"scroll\"><table><thead><tr><th>name</th><th class=\"n\">A ms</th><th class=\"n\">B ms"
        "</th><th class=\"n\">difference ms</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < MIN(n, 25); i++) {
        strbuf_addstr(out, "<tr><td class=\"name\">");
        html_escape(out, v[i].name);
        strbuf_addstr(out, "</td>");
        part_number(out, text_ms_number(v[i].a_ns / 1e6).s);
        part_number(out, text_ms_number(v[i].b_ns / 1e6).s);
        part_number(out, text_ms_number(v[i].change_ns / 1e6).s);
        strbuf_addstr(out, "</tr>\n");
    }
    strbuf_addstr(out, "</tbody></table></div>\n");
    html_section_end(out);
}

static void add_differences(struct strbuf *out, const struct comparison *c) {
    if (!c->env.n) return;
    html_section(out, "environment", "Environment differences", NULL);
    strbuf_addstr(
        out,
        "<div class=\"scroll\"><table><thead><tr><th>what</th><th>A</th><th>B</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < c->env.n; i++) {
        strbuf_addstr(out, "<tr>");
        part_cell(out, c->env.v[i].key);
        part_cell(out, c->env.v[i].a);
        part_cell(out, c->env.v[i].b);
        strbuf_addstr(out, "</tr>\n");
    }
    strbuf_addstr(out, "</tbody></table></div>\n");
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
    strbuf_addstr(
        out, "<div class=\"scroll\"><table class=\"compare\"><thead><tr><th>stage</th><th>unit</th><th "
             "class=\"n\">A</th><th "
             "class=\"n\">B</th><th class=\"n\">change</th><th class=\"n\">95% CI</th><th>verdict</th></tr>"
             "</thead>\n<tbody>\n");
    add_compare_rows(out, c.stages.v, c.stages.n);
    add_compare_rows(out, c.figures.v, c.figures.n);
    strbuf_addstr(out, "</tbody></table></div>\n");
    add_work(out, "kernels", "Kernels", c.kernels.v, c.kernels.n);
    add_work(out, "operators", "Operators", c.operators.v, c.operators.n);
    add_differences(out, &c);
    page_close(q);
    api_close_compare(q, in, &c);
}
