/* Trends with change points, findings over time, machines, comparisons and jobs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/change_points.h"
#include "base/die.h"
#include "base/html.h"
#include "base/jsonr.h"
#include "base/util.h"
#include "base/vec.h"
#include "report/compare.h"
#include "report/html.h"
#include "serve/api.h"
#include "serve/page_parts.h"
#include "serve/pages.h"
#include "serve/server.h"

#define CHANGES_MAX 64

static const char *const stage_metrics[] = { "time", "time_per_token", "tokens_per_s", "mfu",
                                             "mbu",  "distance" };

/* ---- trends */

static bool same_text(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

static void add_series_form(struct strbuf *out, const struct history_trend *t,
                            const struct history_series_list *series, const char *const *stages,
                            size_t nstages) {
    strbuf_addstr(out, "<form class=\"filter\" method=\"get\" action=\"/trends\">\n<label>Series <select "
                       "id=\"series\">");
    for (size_t i = 0; i < MIN(series->n, 300); i++) {
        const struct history_series *s = &series->v[i];
        bool is = same_text(s->model, t->model) && same_text(s->device, t->device) &&
                  same_text(s->engine, t->engine);
        const char *pairs[] = { "model",  s->model ? s->model : "",
                                "device", s->device ? s->device : "",
                                "engine", s->engine ? s->engine : "",
                                "stage",  t->stage,
                                "metric", t->metric,
                                NULL };
        strbuf_addstr(out, "<option value=\"/trends");
        part_query(out, pairs);
        strbuf_addf(out, "\"%s>", is ? " selected" : "");
        part_series_title(out, s->model, s->device, s->engine);
        strbuf_addf(out, " (%lld)</option>", (long long)s->runs);
    }
    strbuf_addstr(out, "</select></label>\n");
    const char *hidden[] = { "model", t->model, "device", t->device, "engine", t->engine };
    for (size_t i = 0; i < COUNTOF(hidden); i += 2) {
        strbuf_addf(out, "<input type=\"hidden\" name=\"%s\" value=\"", hidden[i]);
        html_escape(out, hidden[i + 1]);
        strbuf_addstr(out, "\">");
    }
    part_select(out, "stage", "Stage", stages, nstages, t->stage, NULL);
    part_select(out, "metric", "Metric", stage_metrics, COUNTOF(stage_metrics), t->metric, NULL);
    strbuf_addstr(out, "<button>Show</button></form>\n");
}

static void add_change_row(struct strbuf *out, const struct history_points *points,
                           const struct change_point *c) {
    bool worse = (c->change > 0) != points->larger_is_better;
    const char *before = points->v[c->at - 1].name, *after = points->v[c->at].name;
    const char *pairs[] = { "a", before, "b", after, NULL };
    strbuf_addf(out, "<tr><td><b class=\"%s\">%s%s</b></td>", worse ? "worse-text" : "better-text",
                c->change > 0 ? "+" : "", text_percent(c->change).s);
    part_number(out, text_num(c->before, 3).s);
    part_number(out, text_num(c->after, 3).s);
    part_run_cell(out, before);
    part_run_cell(out, after);
    part_date(out, points->v[c->at].started_ns);
    strbuf_addstr(out, "<td>");
    part_link(out, "/compare", pairs, "compare");
    strbuf_addstr(out, "</td></tr>\n");
}

static void add_changes(struct strbuf *out, const struct history_points *points,
                        const struct change_point *changes, size_t n) {
    html_section(out, "changes", "Change points",
                 n ? "Where the level of the series changed, with the runs on both sides."
                   : "No change of level was found in these runs.");
    if (n) {
        strbuf_addstr(
            out, "<div class=\"scroll\"><table><thead><tr><th>change</th><th class=\"n\">before</th><th "
                 "class=\"n\">after</th><th>last run before</th><th>first run after</th><th>date</th><th>"
                 "</th></tr></thead>\n<tbody>\n");
        for (size_t i = n; i-- > 0;) add_change_row(out, points, &changes[i]);
        strbuf_addstr(out, "</tbody></table></div>\n");
    }
    html_section_end(out);
}

static void add_points_table(struct strbuf *out, const struct history_points *points) {
    html_section(out, "runs", "Runs", NULL);
    strbuf_addf(out,
                "<div class=\"scroll\"><table><thead><tr><th>run</th><th>started</th><th class=\"n\">value "
                "%s</th><th "
                "class=\"n\">95%% CI</th><th>inferprof</th></tr></thead>\n<tbody>\n",
                points->unit ? points->unit : "");
    for (size_t i = points->n; i-- > 0 && points->n - i <= 50;) {
        const struct history_point *p = &points->v[i];
        char interval[96] = "–";
        if (isfinite(p->low))
            snprintf(interval, sizeof interval, "%s to %s", text_num(p->low, 3).s, text_num(p->high, 3).s);
        strbuf_addstr(out, "<tr>");
        part_run_cell(out, p->name);
        part_date(out, p->started_ns);
        part_number(out, text_num(p->value, 3).s);
        part_number(out, interval);
        part_cell(out, p->version);
        strbuf_addstr(out, "</tr>\n");
    }
    strbuf_addstr(out, "</tbody></table></div>\n");
    html_section_end(out);
}

static void show_trend(struct request *q, const struct history_trend *t, const struct history_points *points,
                       const struct history_series_list *series, const char *const *stages, size_t nstages) {
    struct strbuf *out = &q->out;
    struct change_point changes[CHANGES_MAX];
    double *values = xcalloc(points->n + 1, sizeof *values);
    for (size_t i = 0; i < points->n; i++) values[i] = points->v[i].value;
    size_t n = change_points(values, points->n, changes, CHANGES_MAX);
    page_open(q, "Trends", "trends");
    strbuf_addstr(out, "<div class=\"head\"><h1>");
    html_escape(out, t->stage ? t->stage : t->metric);
    strbuf_addstr(out, "</h1><p class=\"soft\">");
    part_series_title(out, t->model, t->device, t->engine);
    strbuf_addf(out, ": %s of the last %zu runs", t->metric, points->n);
    strbuf_addstr(out, "</p></div>\n");
    add_series_form(out, t, series, stages, nstages);
    if (points->n) {
        strbuf_addstr(out, "<div class=\"chart trend\">\n");
        part_trend_chart(out, points, changes, n, 1072, "wide");
        part_trend_chart(out, points, changes, n, 340, "narrow");
        strbuf_addstr(
            out,
            "</div>\n<div class=\"key\"><span><i class=\"k-point\"></i>median of a run, with its 95% interval"
            "</span><span><i class=\"k-level\"></i>level between change points</span><span><i "
            "class=\"k-worse\"></i>slower</span><span><i class=\"k-better\"></i>faster</span></div>\n");
        add_changes(out, points, changes, n);
        add_points_table(out, points);
    } else
        strbuf_addstr(out, "<p class=\"lede\">No run of this series has this value.</p>\n");
    page_close(q);
    free(values);
}

/* Reads the stages of the newest run of the series. Without a run, there are none. */
static int read_stages(struct history *h, const struct history_trend *t, struct run_record *r,
                       struct err *err) {
    struct history_filter f = { .model = *t->model ? t->model : NULL,
                                .device = *t->device ? t->device : NULL,
                                .engine = *t->engine ? t->engine : NULL,
                                .limit = 1 };
    struct history_page page;
    *r = (struct run_record){ 0 };
    if (history_list(h, &f, &page, err) < 0) return -1;
    int rc = page.n ? history_details(h, page.v[0].id, r, err) : 0;
    history_page_free(&page);
    return rc;
}

static const char *pick_stage(const struct run_record *r) {
    for (size_t i = 0; i < r->stages.n; i++)
        if (strcmp(r->stages.v[i].name, "decode") == 0) return "decode";
    return r->stages.n ? r->stages.v[0].name : "decode";
}

/* If the URL names no series, the series with the newest run is shown. */
static void choose_series(struct request *q, const struct history_series_list *series,
                          struct history_trend *t) {
    if (http_query(q, "model") || http_query(q, "device") || !series->n) return;
    t->model = series->v[0].model ? series->v[0].model : "";
    t->device = series->v[0].device ? series->v[0].device : "";
    t->engine = series->v[0].engine ? series->v[0].engine : "";
}

static void trend_with(struct request *q, struct history *h, struct history_trend *t,
                       const struct history_series_list *series) {
    struct run_record r;
    struct history_points points;
    struct err err;
    if (read_stages(h, t, &r, &err) < 0) {
        request_database_failed(q, &err);
        return;
    }
    const char *stages[64];
    size_t nstages = 0;
    for (size_t i = 0; i < r.stages.n && nstages < COUNTOF(stages); i++)
        stages[nstages++] = r.stages.v[i].name;
    bool figure = !t->stage && http_query(q, "metric") && !history_stage_metric(t->metric);
    if (!t->stage && !figure) t->stage = pick_stage(&r);
    if (!http_query(q, "metric")) t->metric = "time";
    if (history_trend(h, t, &points, &err) < 0)
        request_database_failed(q, &err);
    else {
        show_trend(q, t, &points, series, stages, nstages);
        history_points_free(&points);
    }
    run_record_free(&r);
}

void page_trends(struct request *q) {
    struct history_trend t;
    struct history_series_list series;
    struct err err;
    if (!api_read_trend(q, &t)) return;
    struct history *h = request_history(q);
    if (!h) return;
    if (history_series(h, &series, &err) < 0)
        request_database_failed(q, &err);
    else {
        choose_series(q, &series, &t);
        trend_with(q, h, &t, &series);
        history_series_free(&series);
    }
    request_done(q, h);
}

/* ---- findings over time */

struct rule_row {
    const struct history_finding *newest;
    size_t runs;
    int64_t first_ns;
    double largest_ms;
};

static void group_findings(const struct history_findings *list, struct rule_row *rows, size_t cap,
                           size_t *n) {
    for (size_t i = 0; i < list->n; i++) {
        const struct history_finding *f = &list->v[i];
        size_t k = 0;
        while (k < *n &&
               !(same_text(rows[k].newest->rule, f->rule) && same_text(rows[k].newest->stage, f->stage) &&
                 same_text(rows[k].newest->model, f->model) && same_text(rows[k].newest->device, f->device)))
            k++;
        if (k == cap) continue;
        if (k == *n) rows[(*n)++] = (struct rule_row){ .newest = f, .largest_ms = NAN };
        rows[k].runs++;
        rows[k].first_ns = f->started_ns;
        rows[k].largest_ms = fmax(rows[k].largest_ms, f->saving_ms);
    }
}

static void add_rule_row(struct strbuf *out, const struct rule_row *r, int64_t newest_ns) {
    const struct history_finding *f = r->newest;
    strbuf_addstr(out, "<tr><td>");
    html_escape(out, f->rule);
    strbuf_addf(out, "%s</td>", f->started_ns < newest_ns ? "" : " <span class=\"badge warn\">open</span>");
    part_cell(out, f->stage);
    part_cell(out, f->model);
    part_cell(out, f->device);
    part_number(out, text_count(r->runs).s);
    part_number(out, text_ms_number(f->saving_ms).s);
    part_number(out, text_ms_number(r->largest_ms).s);
    part_date(out, r->first_ns);
    part_date(out, f->started_ns);
    part_run_cell(out, f->run);
    strbuf_addstr(out, "</tr>\n");
}

void page_findings(struct request *q) {
    struct history_findings list;
    struct err err;
    struct rule_row rows[200];
    size_t n = 0, runs = 200;
    if (!api_read_count(q, "runs", 1, 500, &runs)) return;
    struct history *h = request_history(q);
    if (!h) return;
    if (history_findings(h, http_query(q, "model"), http_query(q, "device"), http_query(q, "engine"),
                         http_query(q, "rule"), runs, &list, &err) < 0)
        request_database_failed(q, &err);
    else {
        group_findings(&list, rows, COUNTOF(rows), &n);
        page_open(q, "Findings", "findings");
        strbuf_addf(
            &q->out,
            "<div class=\"head\"><h1>Findings over time</h1><p class=\"soft\">of the last %zu runs; open: "
            "the newest of these runs has it</p></div>\n",
            runs);
        strbuf_addstr(
            &q->out,
            "<div class=\"scroll\"><table><thead><tr><th>finding</th><th>stage</th><th>model</th><th>"
            "device</th><th class=\"n\">runs</th><th class=\"n\">saving ms, newest</th><th "
            "class=\"n\">largest</th><th>first seen</th><th>last seen</th><th>newest run</th></tr>"
            "</thead>\n<tbody>\n");
        for (size_t i = 0; i < n; i++) add_rule_row(&q->out, &rows[i], list.v[0].started_ns);
        strbuf_addstr(&q->out, "</tbody></table></div>\n");
        if (!n) strbuf_addstr(&q->out, "<p class=\"lede\">These runs have no findings.</p>\n");
        page_close(q);
        history_findings_free(&list);
    }
    request_done(q, h);
}

/* ---- machines */

void page_machines(struct request *q) {
    struct history_machines list;
    struct err err;
    struct history *h = request_history(q);
    if (!h) return;
    if (history_machines(h, &list, &err) < 0)
        request_database_failed(q, &err);
    else {
        page_open(q, "Machines", "machines");
        strbuf_addstr(
            &q->out,
            "<div class=\"head\"><h1>Machines</h1></div>\n<div class=\"scroll\"><table><thead><tr><th>"
            "host</th><th>device</th><th class=\"n\">runs</th><th>inferprof</th><th>last run</th><th>"
            "started</th></tr></thead>\n<tbody>\n");
        for (size_t i = 0; i < list.n; i++) {
            const struct history_machine *m = &list.v[i];
            const char *pairs[] = { "search", m->host, "device", m->device, NULL };
            strbuf_addstr(&q->out, "<tr><td>");
            part_link(&q->out, "/runs", pairs, text_or_dash(m->host));
            strbuf_addstr(&q->out, "</td>");
            part_cell(&q->out, m->device);
            part_number(&q->out, text_count((uint64_t)m->runs).s);
            part_cell(&q->out, m->version);
            part_run_cell(&q->out, m->last_run);
            part_date(&q->out, m->last_ns);
            strbuf_addstr(&q->out, "</tr>\n");
        }
        strbuf_addstr(&q->out, "</tbody></table></div>\n");
        page_close(q);
        history_machines_free(&list);
    }
    request_done(q, h);
}

/* ---- comparisons */

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
        part_number(out, text_percent(r->change).s);
        part_number(out, interval);
        strbuf_addf(out, "<td class=\"%s\">%s%s", verdict_class(r), compare_verdict_name(r),
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

/* Redirects the selection in the list of runs, ?run=A&run=B...: the oldest run becomes A, the others B.
 * Answers with 400 if only one run is selected. Returns true if it has answered. */
static bool redirect_selection(struct request *q) {
    const char *runs[20];
    size_t n = http_query_all(q, "run", runs, COUNTOF(runs));
    if (n < 2) {
        if (n == 1) http_problem(q, 400, "select two or more runs");
        return n == 1;
    }
    struct strbuf to = STRBUF_INIT;
    strbuf_addstr(&to, "/compare?a=");
    page_url(&to, runs[n - 1]); /* the list has the newest run first */
    for (size_t i = 0; i + 1 < n; i++) {
        strbuf_addstr(&to, "&b=");
        page_url(&to, runs[i]);
    }
    http_redirect(q, to.buf);
    strbuf_free(&to);
    return true;
}

void page_compare(struct request *q) {
    struct comparison c;
    if (redirect_selection(q)) return;
    struct compare_inputs *in = api_open_compare(q, &c);
    if (!in) return;
    struct strbuf *out = &q->out;
    page_open(q, "Compare", "runs");
    strbuf_addstr(out, "<div class=\"head\"><h1>Compare</h1><p class=\"soft\">A: ");
    html_escape(out, text_or_dash(c.a_name));
    if (c.a_runs > 1) strbuf_addf(out, " and %zu more", c.a_runs - 1);
    strbuf_addstr(out, " · B: ");
    html_escape(out, text_or_dash(c.b_name));
    if (c.b_runs > 1) strbuf_addf(out, " and %zu more", c.b_runs - 1);
    strbuf_addstr(out, "</p></div>\n");
    if (c.other_subject) strbuf_addstr(out, "<p class=\"notice\">The model, engine or device differs.</p>\n");
    if (c.other_work)
        strbuf_addstr(out, "<p class=\"notice\">A stage processed a different number of tokens.</p>\n");
    strbuf_addstr(
        out, "<div class=\"scroll\"><table><thead><tr><th>stage</th><th>unit</th><th class=\"n\">A</th><th "
             "class=\"n\">B</th><th class=\"n\">change</th><th class=\"n\">95% CI</th><th>verdict</th></tr>"
             "</thead>\n<tbody>\n");
    add_compare_rows(out, c.stages.v, c.stages.n);
    add_compare_rows(out, c.figures.v, c.figures.n);
    strbuf_addstr(out, "</tbody></table></div>\n");
    add_work(out, "kernels", "Kernels", c.kernels.v, c.kernels.n);
    add_work(out, "operators", "Operators", c.operators.v, c.operators.n);
    add_differences(out, &c);
    page_close(q);
    api_close_compare(in, &c);
}

/* ---- jobs */

void page_jobs(struct request *q) {
    struct db_args args = { 0 };
    struct db_result r;
    struct err err;
    struct history *h = request_history(q);
    if (!h) return;
    db_text(&args, h->store);
    if (database_query(
            h->db,
            "SELECT run_id, state, device, message, created_ns, ended_ns FROM jobs WHERE store = $1 "
            "ORDER BY id DESC LIMIT 200",
            &args, &r, &err) < 0)
        request_database_failed(q, &err);
    else {
        page_open(q, "Jobs", "jobs");
        strbuf_addstr(
            &q->out,
            "<div class=\"head\"><h1>Jobs</h1></div>\n<div class=\"scroll\"><table><thead><tr><th>run"
            "</th><th>status</th><th>device</th><th>created</th><th>ended</th><th>message</th></tr>"
            "</thead>\n<tbody>\n");
        for (size_t i = 0; i < r.rows; i++) {
            strbuf_addstr(&q->out, "<tr>");
            part_run_cell(&q->out, db_cell(&r, i, 0));
            part_cell(&q->out, db_cell(&r, i, 1));
            part_cell(&q->out, db_cell(&r, i, 2));
            part_date(&q->out, db_cell_int(&r, i, 4));
            part_date(&q->out, db_cell_int(&r, i, 5));
            part_cell(&q->out, db_cell(&r, i, 3));
            strbuf_addstr(&q->out, "</tr>\n");
        }
        strbuf_addstr(&q->out, "</tbody></table></div>\n");
        page_close(q);
        q->no_store = true;
        db_result_free(&r);
    }
    request_done(q, h);
}
