/* Memory over time, by kind. */
#include <math.h>
#include <stdio.h>

#include "base/svg.h"
#include "base/text.h"
#include "base/util.h"
#include "report/charts.h"

/* Kinds from bottom to top. The kinds that change least are at the bottom. */
static const struct {
    enum trace_memory_kind kind;
    int color;
} order[] = { { TRACE_MEMORY_WEIGHTS, 0 },
              { TRACE_MEMORY_WORKSPACE, 7 },
              { TRACE_MEMORY_KV_CACHE, 1 },
              { TRACE_MEMORY_OTHER, 6 },
              { TRACE_MEMORY_ACTIVATIONS, 3 } };

#define TOP 12.0
#define BOTTOM 200.0
#define LEFT 78.0
#define LEAST_WIDTH 2.0

struct area {
    double right, t0, t1, most;
};

static double area_x(const struct area *a, uint64_t t) {
    return LEFT + ((double)t - a->t0) / (a->t1 - a->t0) * (a->right - LEFT);
}
static double area_y(const struct area *a, double bytes) { return BOTTOM - bytes / a->most * (BOTTOM - TOP); }

static void draw_column(const struct area *a, const struct analysis_memory_point *p, double x, double width,
                        struct strbuf *out) {
    double below = 0;
    for (size_t k = 0; k < COUNTOF(order); k++) {
        double bytes = p->bytes[order[k].kind];
        char css[4];
        if (!(bytes > 0)) continue;
        snprintf(css, sizeof css, "r%d", order[k].color);
        svg_rect(out, x, area_y(a, below + bytes), width, area_y(a, below) - area_y(a, below + bytes), css);
        below += bytes;
    }
}

/* Memory is constant between two points. Points closer than LEAST_WIDTH share a column, which shows the
 * largest total. */
static void draw_points(const struct area *a, const struct analysis_memory *m, struct strbuf *out) {
    for (size_t i = 0, next; i + 1 < m->n; i = next) {
        double x = area_x(a, m->series[i].time_ns);
        size_t largest = i;
        for (next = i + 1; next + 1 < m->n && area_x(a, m->series[next].time_ns) - x < LEAST_WIDTH; next++)
            if (m->series[next].total > m->series[largest].total) largest = next;
        draw_column(a, &m->series[largest], x, area_x(a, m->series[next].time_ns) - x, out);
    }
}

static void draw_key(const struct analysis_memory *m, struct strbuf *out) {
    double x = LEFT;
    for (size_t k = 0; k < COUNTOF(order); k++) {
        bool any = false;
        char css[4];
        for (size_t i = 0; i < m->n && !any; i++) any = m->series[i].bytes[order[k].kind] > 0;
        if (!any) continue;
        snprintf(css, sizeof css, "r%d", order[k].color);
        svg_rect(out, x, 232, 10, 10, css);
        svg_text(out, x + 14, 241, SVG_START, "", trace_memory_kind_name(order[k].kind));
        x += 100;
    }
}

bool chart_memory_of(const struct analysis_memory *m, const struct chart_form *form, struct strbuf *out) {
    if (m->n < 2 || m->series[m->n - 1].time_ns <= m->series[0].time_ns || !(m->peak.total > 0)) return false;
    struct area a = { .right = form->width - 10,
                      .t0 = (double)m->series[0].time_ns,
                      .t1 = (double)m->series[m->n - 1].time_ns,
                      .most = m->peak.total };
    chart_open(form, 250, "Memory over time, by kind", out);
    svg_line(out, LEFT, BOTTOM, a.right, BOTTOM, "axis");
    svg_line(out, LEFT, TOP, a.right, TOP, "axis");
    draw_points(&a, m, out);
    svg_text(out, LEFT - 6, TOP + 4, SVG_END, "", text_bytes(m->peak.total).s);
    svg_text(out, LEFT - 6, BOTTOM + 4, SVG_END, "", "0");
    svg_text(out, LEFT, BOTTOM + 18, SVG_START, "", "0 s");
    svg_text(out, a.right, BOTTOM + 18, SVG_END, "", text_ms((a.t1 - a.t0) / 1e6).s);
    draw_key(m, out);
    svg_close(out);
    return true;
}

bool chart_memory(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    for (size_t i = 0; v->a && i < v->a->nmemories; i++)
        if (chart_memory_of(&v->a->memories[i], form, out)) return true;
    return false;
}
