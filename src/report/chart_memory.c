/* Memory over time, by kind. */
#include <math.h>

#include "base/svg.h"
#include "base/text.h"
#include "base/util.h"
#include "report/chart_axis.h"

/* Kinds from bottom to top. The kinds that change least are at the bottom. */
static const struct {
    enum trace_memory_kind kind;
    int color;
} order[] = { { TRACE_MEMORY_WEIGHTS, 0 },
              { TRACE_MEMORY_WORKSPACE, 7 },
              { TRACE_MEMORY_KV_CACHE, 4 }, /* as the category of kernels */
              { TRACE_MEMORY_OTHER, 12 },
              { TRACE_MEMORY_ACTIVATIONS, 3 } };

#define TOP 12.0
#define BOTTOM 200.0
#define LEFT 78.0
#define LEAST_WIDTH 2.0
#define LABEL_HEIGHT 16.0

struct area {
    double right, t0, t1, most;
    bool titled; /* with numbers under the mouse pointer */
};

static double area_x(const struct area *a, uint64_t t) {
    return LEFT + ((double)t - a->t0) / (a->t1 - a->t0) * (a->right - LEFT);
}
static double area_y(const struct area *a, double bytes) { return BOTTOM - bytes / a->most * (BOTTOM - TOP); }

/* Writes "at 12.3 ms: weights 15.3 GB, KV cache 1.2 GB, together 16.5 GB". */
static void column_title(const struct area *a, const struct analysis_memory_point *p, struct strbuf *out) {
    strbuf_addf(out, "at %s: ", text_ms(((double)p->time_ns - a->t0) * 1e-6).s);
    for (size_t k = 0; k < COUNTOF(order); k++)
        if (p->bytes[order[k].kind] > 0)
            strbuf_addf(out, "%s %s, ", trace_memory_kind_name(order[k].kind),
                        text_bytes(p->bytes[order[k].kind]).s);
    strbuf_addf(out, "together %s", text_bytes(p->total).s);
}

static void draw_column(const struct area *a, const struct analysis_memory_point *p, double x, double width,
                        struct strbuf *out) {
    struct strbuf title = STRBUF_INIT;
    double below = 0;
    if (a->titled) column_title(a, p, &title);
    for (size_t k = 0; k < COUNTOF(order); k++) {
        double bytes = p->bytes[order[k].kind];
        if (!(bytes > 0)) continue;
        chart_rect(x, area_y(a, below + bytes), width, area_y(a, below) - area_y(a, below + bytes),
                   order[k].color, a->titled ? title.buf : NULL, out);
        below += bytes;
    }
    strbuf_free(&title);
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

/* Names each kind in the chart where it has most bytes, if there is room: colours may not be printed. */
static void draw_names(const struct area *a, const struct analysis_memory *m, struct strbuf *out) {
    for (size_t k = 0; k < COUNTOF(order); k++) {
        size_t most = 0;
        double below = 0;
        for (size_t i = 0; i < m->n; i++)
            if (m->series[i].bytes[order[k].kind] > m->series[most].bytes[order[k].kind]) most = i;
        for (size_t lower = 0; lower < k; lower++) below += m->series[most].bytes[order[lower].kind];
        double top = area_y(a, below + m->series[most].bytes[order[k].kind]), bottom = area_y(a, below);
        double x = area_x(a, m->series[most].time_ns);
        if (bottom - top < LABEL_HEIGHT) continue;
        svg_text(out, fmin(x + 6, a->right - 80), (top + bottom) / 2 + 4, SVG_START, "ink",
                 trace_memory_kind_name(order[k].kind));
    }
}

static void draw_key(const struct analysis_memory *m, struct strbuf *out) {
    double x = LEFT;
    for (size_t k = 0; k < COUNTOF(order); k++) {
        bool any = false;
        for (size_t i = 0; i < m->n && !any; i++) any = m->series[i].bytes[order[k].kind] > 0;
        if (!any) continue;
        chart_rect(x, 232, 10, 10, order[k].color, NULL, out);
        svg_text(out, x + 14, 241, SVG_START, "", trace_memory_kind_name(order[k].kind));
        x += 100;
    }
}

/* All labels have the unit of the largest value. */
static void draw_bytes_axis(const struct chart_box *box, double bytes, struct strbuf *out) {
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    size_t u = 0;
    for (; bytes >= 1000 && u + 1 < COUNTOF(units); u++) bytes /= 1000;
    chart_value_axis(box, bytes, units[u], out);
}

bool chart_memory_of(const struct analysis_memory *m, const struct chart_form *form, struct strbuf *out) {
    if (m->n < 2 || m->series[m->n - 1].time_ns <= m->series[0].time_ns || !(m->peak.total > 0)) return false;
    struct area a = { .right = form->width - 10,
                      .t0 = (double)m->series[0].time_ns,
                      .t1 = (double)m->series[m->n - 1].time_ns,
                      .most = m->peak.total,
                      .titled = form->width >= CHART_WIDE };
    const struct chart_box box = { LEFT, a.right, TOP, BOTTOM };
    chart_open(form, 250, "Memory over time, by kind", out);
    draw_bytes_axis(&box, a.most, out);
    draw_points(&a, m, out);
    draw_names(&a, m, out);
    chart_time_axis(&box, a.t1 - a.t0, out);
    draw_key(m, out);
    svg_close(out);
    return true;
}

bool chart_memory(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    for (size_t i = 0; v->a && i < v->a->nmemories; i++)
        if (chart_memory_of(&v->a->memories[i], form, out)) return true;
    return false;
}
