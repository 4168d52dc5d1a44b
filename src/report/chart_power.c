/* Power and SM clock over time. Times with a throttled clock are shaded. */
#include <math.h>
#include <stdio.h>

#include "base/svg.h"
#include "base/text.h"
#include "base/util.h"
#include "report/charts.h"

/* NVML's clock event reasons: software power cap, hardware slowdown, software and hardware thermal slowdown,
 * hardware power brake. */
#define THROTTLE_BITS (0x4u | 0x8u | 0x20u | 0x40u | 0x80u)

struct lane {
    double left, right, top, bottom, t0, t1, most;
};

static double lane_x(const struct lane *l, uint64_t t) {
    return l->left + ((double)t - l->t0) / (l->t1 - l->t0) * (l->right - l->left);
}
static double lane_y(const struct lane *l, double value) {
    return l->bottom - value / l->most * (l->bottom - l->top);
}

static void draw_marks(const struct lane *l, const struct analysis_power *p, struct strbuf *out) {
    for (size_t i = 0; i + 1 < p->n; i++)
        if (p->series[i].throttle_reasons & THROTTLE_BITS)
            svg_rect(out, lane_x(l, p->series[i].time_ns), l->top,
                     lane_x(l, p->series[i + 1].time_ns) - lane_x(l, p->series[i].time_ns),
                     l->bottom - l->top, "mark");
}

static void draw_lane(const struct lane *l, const struct analysis_power *p, bool watts, struct strbuf *out) {
    struct svg_path path;
    char label[64];
    svg_line(out, l->left, l->bottom, l->right, l->bottom, "axis");
    svg_line(out, l->left, l->top, l->right, l->top, "axis");
    draw_marks(l, p, out);
    svg_path_open(&path, out, watts ? "line" : "line2");
    for (size_t i = 0; i < p->n; i++)
        svg_path_to(&path, lane_x(l, p->series[i].time_ns),
                    lane_y(l, watts ? (double)p->series[i].watts : (double)p->series[i].sm_mhz));
    svg_path_close(&path);
    snprintf(label, sizeof label, "%.0f %s", l->most, watts ? "W" : "MHz");
    svg_text(out, l->left - 6, l->top + 4, SVG_END, "", label);
    svg_text(out, l->left - 6, l->bottom + 4, SVG_END, "", "0");
}

bool chart_power_of(const struct analysis_power *p, const struct chart_form *form, struct strbuf *out) {
    if (p->n < 2 || p->series[p->n - 1].time_ns <= p->series[0].time_ns) return false;
    struct lane l = { .left = 66,
                      .right = form->width - 10,
                      .top = 12,
                      .bottom = 108,
                      .t0 = (double)p->series[0].time_ns,
                      .t1 = (double)p->series[p->n - 1].time_ns };
    chart_open(form, 250, "Power and SM clock over time", out);
    l.most = p->watts_max > 0 ? ceil(p->watts_max / 50) * 50 : 1;
    draw_lane(&l, p, true, out);
    l.top = 126;
    l.bottom = 222;
    l.most = p->sm_mhz_max > 0 ? ceil(p->sm_mhz_max / 500) * 500 : 1;
    draw_lane(&l, p, false, out);
    svg_text(out, l.left, 244, SVG_START, "", "0 s");
    svg_text(out, l.right, 244, SVG_END, "", text_ms((l.t1 - l.t0) / 1e6).s);
    svg_close(out);
    return true;
}

bool chart_power(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    for (size_t i = 0; v->a && i < v->a->npowers; i++)
        if (chart_power_of(&v->a->powers[i], form, out)) return true;
    return false;
}
