/* The trend of a series: values over time with change points. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/change_points.h"
#include "base/die.h"
#include "base/html.h"
#include "base/util.h"
#include "report/html.h"
#include "serve/api.h"
#include "serve/page_parts.h"
#include "serve/pages.h"
#include "serve/server.h"

#define CHANGES_MAX 64

static const char *const stage_metrics[] = { "time", "time_per_token", "tokens_per_s", "mfu",
                                             "mbu",  "distance" };
static const char *const metric_names[] = {
    "time", "time per token", "tokens per second", "MFU", "MBU", "distance from the roofline"
};

/* Readable name of a stage's metric. A figure has only its key. */
static const char *metric_name(const char *metric) {
    for (size_t i = 0; i < COUNTOF(stage_metrics); i++)
        if (strcmp(stage_metrics[i], metric) == 0) return metric_names[i];
    return metric;
}

static void add_series_form(struct strbuf *out, const struct history_trend *t,
                            const struct history_series_list *series, const char *const *stages,
                            size_t nstages) {
    strbuf_addstr(out, "<form class=\"filter\" method=\"get\" action=\"/trends\">\n<label>Series <select "
                       "id=\"series\">");
    for (size_t i = 0; i < MIN(series->n, 300); i++) {
        const struct history_series *s = &series->v[i];
        bool is = part_same_text(s->model, t->model) && part_same_text(s->device, t->device) &&
                  part_same_text(s->engine, t->engine);
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
    part_select(out, "stage", "Stage", stages, NULL, nstages, t->stage, NULL);
    part_select(out, "metric", "Metric", stage_metrics, metric_names, COUNTOF(stage_metrics), t->metric,
                NULL);
    strbuf_addstr(out, "<button>Show</button></form>\n");
}

static void add_change_row(struct strbuf *out, const struct history_points *points,
                           const struct change_point *c) {
    bool worse = (c->change > 0) != points->larger_is_better;
    const char *before = points->v[c->at - 1].name, *after = points->v[c->at].name;
    const char *pairs[] = { "a", before, "b", after, NULL };
    strbuf_addf(out, "<tr><td><b class=\"%s\">%s%s</b>%s</td>", worse ? "worse-text" : "better-text",
                c->change > 0 ? "+" : "", text_percent(c->change).s,
                c->drift
                    ? " <span title=\"the values change slowly, not from one run to the next\">drift</span>"
                    : "");
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

static void add_trend_head(struct strbuf *out, const struct history_trend *t, size_t runs) {
    strbuf_addstr(out, "<div class=\"head\"><h1>");
    html_escape(out, t->stage ? t->stage : t->metric);
    strbuf_addstr(out, "</h1><p class=\"soft\">");
    part_series_title(out, t->model, t->device, t->engine);
    strbuf_addstr(out, ": ");
    html_escape(out, metric_name(t->metric));
    if (runs == 1)
        strbuf_addstr(out, " of one run</p></div>\n");
    else
        strbuf_addf(out, " of the last %zu runs</p></div>\n", runs);
}

/* The newest run against the runs before it. Without colour: a single run may differ by chance. */
static void add_baseline(struct strbuf *out, const struct history_points *points, const struct baseline *b) {
    const char *unit = points->unit ? points->unit : "";
    if (!isfinite(b->change)) return;
    strbuf_addf(out, "<p class=\"baseline\">Newest run: <b>%s %s</b>, %s%s", text_num(b->newest, 3).s, unit,
                b->change > 0 ? "+" : "", text_percent(b->change).s);
    strbuf_addf(out,
                " against the baseline of %s %s: the median of the %zu runs before it since the last "
                "change</p>\n",
                text_num(b->median, 3).s, unit, b->runs);
}

static void show_trend(struct request *q, const struct history_trend *t, const struct history_points *points,
                       const struct history_series_list *series, const char *const *stages, size_t nstages) {
    struct strbuf *out = &q->out;
    struct change_point changes[CHANGES_MAX];
    double *values = xcalloc(points->n + 1, sizeof *values);
    for (size_t i = 0; i < points->n; i++) values[i] = points->v[i].value;
    size_t n = change_points(values, points->n, changes, CHANGES_MAX);
    page_open(q, "Trends", "trends");
    if (series->n)
        add_trend_head(out, t, points->n);
    else
        strbuf_addstr(out, "<div class=\"head\"><h1>Trends</h1></div>\n");
    if (series->n) add_series_form(out, t, series, stages, nstages);
    if (points->n) {
        strbuf_addstr(out, "<div class=\"chart trend\">\n");
        part_trend_chart(out, points, changes, n, 1072, "wide");
        part_trend_chart(out, points, changes, n, 340, "narrow");
        strbuf_addstr(
            out,
            "</div>\n<div class=\"key\"><span><i class=\"k-point\"></i>median of a run, with its 95% interval"
            "</span><span><i class=\"k-level\"></i>level between change points</span><span><i "
            "class=\"k-worse\"></i>slower</span><span><i class=\"k-better\"></i>faster</span></div>\n");
        struct baseline b = baseline_of(values, points->n, changes, n, BASELINE_RUNS);
        add_baseline(out, points, &b);
        add_changes(out, points, changes, n);
        add_points_table(out, points);
    } else
        part_empty(out, series->n ? "No run of this series has this value." : "There are no runs yet.",
                   !series->n);
    page_close(q);
    free(values);
}

/* Stages of the newest run of the series. No stages without a run. */
static int read_stages(struct history *h, const struct history_trend *t, struct run_record *r,
                       struct err *err) {
    int64_t id;
    *r = (struct run_record){ 0 };
    int found = history_newest(h, t, &id, err);
    return found > 0 ? history_details(h, id, r, err) : found;
}

static const char *pick_stage(const struct run_record *r) {
    for (size_t i = 0; i < r->stages.n; i++)
        if (strcmp(r->stages.v[i].name, "decode") == 0) return "decode";
    return r->stages.n ? r->stages.v[0].name : "decode";
}

/* Chooses the series with the newest run if the URL names neither a model nor a device. */
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
        bool any = http_query(q, "model") || http_query(q, "device") || http_query(q, "engine") ||
                   http_query(q, "stage") || http_query(q, "metric");
        choose_series(q, &series, &t);
        if (!any && series.n > 1)
            page_changes(q, h, &series);
        else
            trend_with(q, h, &t, &series);
        history_series_free(&series);
    }
    request_done(q, h);
}
