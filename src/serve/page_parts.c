#include "serve/page_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/change_points.h"
#include "base/html.h"
#include "base/svg.h"
#include "base/util.h"
#include "serve/pages.h"

void part_cell(struct strbuf *out, const char *text) {
    strbuf_addstr(out, "<td>");
    html_escape(out, text_or_dash(text));
    strbuf_addstr(out, "</td>");
}

void part_number(struct strbuf *out, const char *text) {
    strbuf_addstr(out, "<td class=\"n\">");
    html_escape(out, text);
    strbuf_addstr(out, "</td>");
}

void part_table_open(struct strbuf *out, const struct column_set *set, const char *css_class) {
    strbuf_addstr(out, "<div class=\"scroll\"><table");
    if (*css_class) strbuf_addf(out, " class=\"%s\"", css_class);
    strbuf_addstr(out, "><thead><tr>");
    for (size_t i = 0; i < set->n; i++) {
        const struct column *c = set->v[i].column;
        strbuf_addf(out, "<th%s>%s</th>", column_is_text(c) ? "" : " class=\"n\"", c->heading);
    }
    strbuf_addstr(out, "</tr></thead>\n<tbody>\n");
}

void part_cells(struct strbuf *out, const struct column_set *set, const void *item, size_t first,
                size_t end) {
    struct strbuf text = STRBUF_INIT;
    for (size_t i = first; i < end; i++) {
        const struct column *c = set->v[i].column;
        strbuf_reset(&text);
        column_show(c, &(struct column_row){ .item = item }, &text);
        strbuf_addstr(out, c->format == COLUMN_NAME ? "<td class=\"name\">"
                           : column_is_text(c)      ? "<td>"
                                                    : "<td class=\"n\">");
        html_escape(out, text.buf);
        strbuf_addstr(out, "</td>");
    }
    strbuf_free(&text);
}

void part_table_close(struct strbuf *out) { strbuf_addstr(out, "</tbody></table></div>\n"); }

void part_table(struct strbuf *out, const struct column_group *group, struct column_items items) {
    struct column_set set;
    column_set_init(&set, group, 1, COLUMN_DOC_HTML, NULL);
    part_table_open(out, &set, "");
    for (size_t i = 0; i < items.n; i++) {
        strbuf_addstr(out, "<tr>");
        part_cells(out, &set, column_item(&items, i), 0, set.n);
        strbuf_addstr(out, "</tr>\n");
    }
    part_table_close(out);
}

void part_run_cell(struct strbuf *out, const char *name) {
    strbuf_addstr(out, "<td><a href=\"");
    page_run_link(out, name);
    strbuf_addstr(out, "\">");
    html_escape(out, name);
    strbuf_addstr(out, "</a></td>");
}

void part_query(struct strbuf *out, const char *const *pairs) {
    bool first = true;
    for (; pairs[0]; pairs += 2) {
        if (!pairs[1]) continue;
        strbuf_addf(out, "%s%s=", first ? "?" : "&amp;", pairs[0]);
        page_url(out, pairs[1]);
        first = false;
    }
}

void part_link(struct strbuf *out, const char *path, const char *const *pairs, const char *text) {
    strbuf_addf(out, "<a href=\"%s", path);
    part_query(out, pairs);
    strbuf_addstr(out, "\">");
    html_escape(out, text);
    strbuf_addstr(out, "</a>");
}

void part_date(struct strbuf *out, int64_t ns) {
    strbuf_addf(out, "<td class=\"date\">%s</td>", text_date(ns > 0 ? (uint64_t)ns : 0).s);
}

void part_day(struct strbuf *out, int64_t ns) {
    strbuf_addf(out, "<td class=\"date\">%.10s</td>", text_date(ns > 0 ? (uint64_t)ns : 0).s);
}

bool part_same_text(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

void part_empty(struct strbuf *out, const char *message, bool no_runs) {
    strbuf_addstr(out, "<div class=\"empty\"><p>");
    html_escape(out, message);
    strbuf_addstr(out, "</p>");
    if (no_runs)
        strbuf_addstr(out,
                      "<p>Profile a model with <code>inferprof profile</code>, or send a run from another "
                      "machine with <code>inferprof push</code>.</p>");
    strbuf_addstr(out, "</div>\n");
}

static void add_option(struct strbuf *out, const char *value, const char *text, bool selected) {
    strbuf_addstr(out, "<option value=\"");
    html_escape(out, value);
    strbuf_addf(out, "\"%s>", selected ? " selected" : "");
    html_escape(out, text);
    strbuf_addstr(out, "</option>");
}

void part_select(struct strbuf *out, const char *name, const char *label, const char *const *values,
                 const char *const *texts, size_t n, const char *selected, const char *any) {
    bool found = false;
    strbuf_addf(out, "<label>%s <select name=\"%s\">", label, name);
    if (any) add_option(out, "", any, !selected || !*selected);
    for (size_t i = 0; i < n; i++) {
        bool is = selected && strcmp(selected, values[i]) == 0;
        found |= is;
        const char *text = texts ? texts[i] : values[i];
        add_option(out, values[i], *text ? text : "–", is);
    }
    if (selected && *selected && !found) add_option(out, selected, selected, true);
    strbuf_addstr(out, "</select></label>\n");
}

void part_series_title(struct strbuf *out, const char *model, const char *device, const char *engine) {
    html_escape(out, model && *model ? model : "any program");
    if (device && *device) {
        strbuf_addstr(out, " on ");
        html_escape(out, device);
    }
    if (engine && *engine) {
        strbuf_addstr(out, ", engine ");
        html_escape(out, engine);
    }
}

/* ---- trend chart */

struct chart {
    struct strbuf *out;
    const struct history_points *points;
    /* size of the drawing, and edges of the plot in it */
    double width, height, left, right, top, bottom;
    double low, high; /* range of the vertical axis */
};

static double chart_x(const struct chart *c, size_t i) {
    if (c->points->n == 1) return (c->left + c->right) / 2;
    return c->left + (c->right - c->left) * (double)i / (double)(c->points->n - 1);
}

static double chart_y(const struct chart *c, double v) {
    return c->bottom - (c->bottom - c->top) * (v - c->low) / (c->high - c->low);
}

/* With few points, the vertical axis shows their whole intervals. With many, one long interval would flatten
 * the line. */
#define FEW_POINTS 5

static void find_range(struct chart *c) {
    c->low = INFINITY;
    c->high = -INFINITY;
    for (size_t i = 0; i < c->points->n; i++) {
        double v = c->points->v[i].value;
        if (!isfinite(v)) continue;
        c->low = fmin(c->low, v);
        c->high = fmax(c->high, v);
        if (c->points->n > FEW_POINTS) continue;
        c->low = fmin(c->low, c->points->v[i].low); /* fmin and fmax ignore NaN */
        c->high = fmax(c->high, c->points->v[i].high);
    }
    if (!(c->low <= c->high)) c->low = c->high = 0;
    double margin = fmax((c->high - c->low) * 0.15, fabs(c->high) * 0.01 + 1e-12);
    c->low -= margin;
    c->high += margin;
}

/* 1, 2 or 5 times a power of ten */
static double grid_step(double range) {
    double power = pow(10, floor(log10(range / 4)));
    double steps = range / 4 / power;
    return power * (steps > 5 ? 10 : steps > 2 ? 5 : steps > 1 ? 2 : 1);
}

static void draw_grid(const struct chart *c) {
    double step = grid_step(c->high - c->low);
    int decimals = step < 1 ? (int)ceil(-log10(step)) : 0;
    for (double v = ceil(c->low / step) * step; v <= c->high; v += step) {
        svg_line(c->out, c->left, chart_y(c, v), c->right, chart_y(c, v), "axis");
        svg_text(c->out, c->left - 8, chart_y(c, v) + 4, SVG_END, "", text_num(v, decimals).s);
    }
    if (c->points->unit) svg_text(c->out, c->left - 8, c->top + 4, SVG_END, "", c->points->unit);
    size_t last = c->points->n - 1;
    char date[40];
    snprintf(date, sizeof date, "%.10s", text_date((uint64_t)c->points->v[0].started_ns).s);
    svg_text(c->out, last ? c->left : chart_x(c, 0), c->height - 6, last ? SVG_START : SVG_MIDDLE, "", date);
    if (!last) return;
    snprintf(date, sizeof date, "%.10s", text_date((uint64_t)c->points->v[last].started_ns).s);
    svg_text(c->out, c->right, c->height - 6, SVG_END, "", date);
}

static void draw_levels(const struct chart *c, const struct change_point *changes, size_t n) {
    for (size_t i = 0; i <= n; i++) {
        size_t from = i ? changes[i - 1].at : 0, to = i < n ? changes[i].at - 1 : c->points->n - 1;
        double level = i < n ? changes[i].before : n ? changes[n - 1].after : NAN;
        if (isnan(level)) continue;
        svg_line(c->out, chart_x(c, from), chart_y(c, level), chart_x(c, to), chart_y(c, level), "level");
    }
}

static void draw_changes(const struct chart *c, const struct change_point *changes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool worse = (changes[i].change > 0) != c->points->larger_is_better;
        double x = (chart_x(c, changes[i].at) + chart_x(c, changes[i].at - 1)) / 2;
        char label[48];
        snprintf(label, sizeof label, "%s%s", changes[i].change > 0 ? "+" : "",
                 text_percent(changes[i].change).s);
        svg_line(c->out, x, c->top, x, c->bottom, worse ? "worse" : "better");
        svg_text(c->out, x + (x > c->right - 60 ? -4 : 4), c->top - 3 - 12 * (double)(i % 2),
                 x > c->right - 60 ? SVG_END : SVG_START, worse ? "worse-text" : "better-text", label);
    }
}

static void draw_line(const struct chart *c) {
    struct svg_path path;
    svg_path_open(&path, c->out, "line");
    for (size_t i = 0; i < c->points->n; i++)
        if (isfinite(c->points->v[i].value))
            svg_path_to(&path, chart_x(c, i), chart_y(c, c->points->v[i].value));
    svg_path_close(&path);
}

static void draw_points(const struct chart *c) {
    for (size_t i = 0; i < c->points->n; i++) {
        const struct history_point *p = &c->points->v[i];
        if (isfinite(p->low) && isfinite(p->high))
            svg_line(c->out, chart_x(c, i), chart_y(c, fmax(p->low, c->low)), chart_x(c, i),
                     chart_y(c, fmin(p->high, c->high)), "interval");
    }
    draw_line(c);
    for (size_t i = 0; i < c->points->n; i++) {
        const struct history_point *p = &c->points->v[i];
        char title[400];
        if (!isfinite(p->value)) continue;
        snprintf(title, sizeof title, "%.300s: %s %s", p->name, text_num(p->value, 3).s,
                 c->points->unit ? c->points->unit : "");
        strbuf_addstr(c->out, "<a href=\"");
        page_run_link(c->out, p->name);
        strbuf_addstr(c->out, "\">");
        svg_circle(c->out, chart_x(c, i), chart_y(c, p->value), c->points->n > 120 ? 2 : 3.5, "point", title);
        strbuf_addstr(c->out, "</a>");
    }
}

void part_trend_chart(struct strbuf *out, const struct history_points *points,
                      const struct change_point *changes, size_t nchanges, double width,
                      const char *css_class) {
    struct chart c = { .out = out, .points = points, .width = width, .height = width > 600 ? 300 : 220 };
    if (points->n == 0) return;
    c.left = 64;
    c.right = width - 16;
    c.top = 26; /* below the unit */
    c.bottom = c.height - 28;
    find_range(&c);
    svg_open(out, width, c.height, css_class, "Values over time");
    draw_grid(&c);
    draw_changes(&c, changes, nchanges);
    draw_levels(&c, changes, nchanges);
    draw_points(&c);
    svg_close(out);
}

void part_sparkline(struct strbuf *out, const struct history_points *points,
                    const struct change_point *changes, size_t nchanges) {
    struct chart c = { .out = out,
                       .points = points,
                       .width = 190,
                       .height = 34,
                       .left = 2,
                       .right = 188,
                       .top = 2,
                       .bottom = 32 };
    if (points->n < 2) {
        strbuf_addstr(out, "–");
        return;
    }
    find_range(&c);
    svg_open(out, c.width, c.height, "spark", "Values over time");
    for (size_t i = 0; i < nchanges; i++) {
        bool worse = (changes[i].change > 0) != points->larger_is_better;
        double x = (chart_x(&c, changes[i].at) + chart_x(&c, changes[i].at - 1)) / 2;
        svg_line(out, x, c.top, x, c.bottom, worse ? "worse" : "better");
    }
    draw_line(&c);
    svg_close(out);
}
