/* The first page of the trends: the newest change of every series. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/change_points.h"
#include "base/die.h"
#include "base/html.h"
#include "base/util.h"
#include "serve/api.h"
#include "serve/page_parts.h"
#include "serve/pages.h"
#include "serve/server.h"

#define SERIES_MAX 24
#define RUNS_MAX 60 /* runs per series */
#define CHANGES_MAX 16

/* What the page can show: ?of=STAGE. */
static const struct overview {
    const char *stage, *metric, *title;
} overviews[] = {
    { "decode", "time_per_token", "Time per token of decode" },
    { "prefill", "time", "Time of prefill" },
};

static const struct overview *find_overview(const char *stage) {
    for (size_t i = 0; stage && i < COUNTOF(overviews); i++)
        if (strcmp(overviews[i].stage, stage) == 0) return &overviews[i];
    return &overviews[0];
}

struct series_row {
    const struct history_series *series;
    struct history_points points;
    struct change_point changes[CHANGES_MAX];
    size_t nchanges;
    struct baseline baseline;
    int64_t changed_ns; /* start of the first run after the newest change; 0: no change */
};

static void find_changes(struct series_row *row) {
    double *values = xcalloc(row->points.n + 1, sizeof *values);
    for (size_t i = 0; i < row->points.n; i++) values[i] = row->points.v[i].value;
    row->nchanges = change_points(values, row->points.n, row->changes, CHANGES_MAX);
    row->baseline = baseline_of(values, row->points.n, row->changes, row->nchanges, BASELINE_RUNS);
    if (row->nchanges) row->changed_ns = row->points.v[row->changes[row->nchanges - 1].at].started_ns;
    free(values);
}

static int read_rows(struct history *h, const struct history_series_list *series, const struct overview *o,
                     struct series_row *rows, size_t *n, struct err *err) {
    for (*n = 0; *n < MIN(series->n, SERIES_MAX); (*n)++) {
        const struct history_series *s = &series->v[*n];
        struct history_trend t = { .model = s->model ? s->model : "",
                                   .device = s->device ? s->device : "",
                                   .engine = s->engine ? s->engine : "",
                                   .stage = o->stage,
                                   .metric = o->metric,
                                   .limit = RUNS_MAX };
        rows[*n] = (struct series_row){ .series = s };
        if (history_trend(h, &t, &rows[*n].points, err) < 0) return -1;
        find_changes(&rows[*n]);
    }
    return 0;
}

/* Newest change first; series without a change keep their order. */
static int compare_rows(const void *a, const void *b) {
    const struct series_row *x = a, *y = b;
    if (x->changed_ns != y->changed_ns) return x->changed_ns > y->changed_ns ? -1 : 1;
    return x->series < y->series ? -1 : x->series > y->series;
}

static void add_change_cells(struct strbuf *out, const struct series_row *row) {
    if (!row->nchanges) {
        strbuf_addstr(out, "<td class=\"soft\">no change</td><td>–</td><td>–</td>");
        return;
    }
    const struct change_point *c = &row->changes[row->nchanges - 1];
    bool worse = (c->change > 0) != row->points.larger_is_better;
    strbuf_addf(out, "<td><b class=\"%s\">%s %s</b>%s</td>", worse ? "worse-text" : "better-text",
                text_percent(fabs(c->change)).s, worse ? "slower" : "faster", c->drift ? " (drift)" : "");
    part_day(out, row->changed_ns);
    part_run_cell(out, row->points.v[c->at].name);
}

/* Adds the model as a link to the trend, and below it the device and the engine. */
static void add_series_cell(struct strbuf *out, const struct history_series *s, const struct overview *o,
                            bool known) {
    const char *pairs[] = { "model",  s->model ? s->model : "",   "device", s->device ? s->device : "",
                            "engine", s->engine ? s->engine : "", "stage",  known ? o->stage : NULL,
                            "metric", known ? o->metric : NULL,   NULL };
    strbuf_addstr(out, "<td>");
    part_link(out, "/trends", pairs, s->model ? s->model : "any program");
    strbuf_addstr(out, "<div class=\"soft\">");
    html_escape(out, s->device ? s->device : "");
    strbuf_addstr(out, s->device && s->engine ? ", " : "");
    html_escape(out, s->engine ? s->engine : "");
    strbuf_addstr(out, "</div></td>");
}

static void add_series_row(struct strbuf *out, const struct series_row *row, const struct overview *o) {
    bool known = row->points.n > 0;
    strbuf_addstr(out, "<tr>");
    add_series_cell(out, row->series, o, known);
    add_change_cells(out, row);
    strbuf_addstr(out, "<td>");
    part_sparkline(out, &row->points, row->changes, row->nchanges);
    strbuf_addstr(out, "</td>");
    part_number(out, text_num(row->baseline.newest, 3).s);
    strbuf_addf(out, "<td class=\"n\">%s%s</td>", row->baseline.change > 0 ? "+" : "",
                text_percent(row->baseline.change).s);
    part_number(out, text_count((uint64_t)row->series->runs).s);
    strbuf_addstr(out, "</tr>\n");
}

static void show_rows(struct request *q, const struct overview *o, const struct series_row *rows, size_t n,
                      bool all) {
    struct strbuf *out = &q->out;
    page_open(q, "Trends", "trends");
    strbuf_addf(out,
                "<div class=\"head\"><h1>What changed</h1><p class=\"soft\">%s"
                " in the last %d runs of each series%s; newest change first.",
                o->title, RUNS_MAX, all ? "" : " with new runs");
    for (size_t i = 0; i < COUNTOF(overviews); i++)
        if (&overviews[i] != o)
            strbuf_addf(out, " <a href=\"/trends?of=%s\">%s</a>", overviews[i].stage, overviews[i].title);
    strbuf_addstr(out, "</p></div>\n");
    strbuf_addstr(
        out, "<div class=\"scroll\"><table class=\"lines\"><thead><tr><th>series</th><th>change</th>"
             "<th>since</th><th>first run after</th><th>trend</th><th class=\"n\">newest ms</th>"
             "<th class=\"n\" title=\"newest run against the median of up to 10 runs before it, since the "
             "last change\">vs baseline</th>"
             "<th class=\"n\">runs</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < n; i++) add_series_row(out, &rows[i], o);
    strbuf_addstr(out, "</tbody></table></div>\n");
    page_close(q);
}

void page_changes(struct request *q, struct history *h, const struct history_series_list *series) {
    struct series_row *rows = xcalloc(SERIES_MAX, sizeof *rows);
    struct err err;
    size_t n;
    const struct overview *o = find_overview(http_query(q, "of"));
    if (read_rows(h, series, o, rows, &n, &err) < 0)
        request_database_failed(q, &err);
    else {
        qsort(rows, n, sizeof *rows, compare_rows);
        show_rows(q, o, rows, n, series->n <= SERIES_MAX);
    }
    for (size_t i = 0; i < n; i++) history_points_free(&rows[i].points);
    free(rows);
}
