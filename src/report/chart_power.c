/* Power and SM clock over time, one above the other. Times with a throttled clock are shaded. */
#include <math.h>
#include <stdio.h>

#include "base/svg.h"
#include "base/text.h"
#include "base/util.h"
#include "report/chart_axis.h"

/* NVML's clock event reasons: software power cap, hardware slowdown, software and hardware thermal slowdown,
 * hardware power brake. */
#define THROTTLE_BITS (0x4u | 0x8u | 0x20u | 0x40u | 0x80u)

/* One of the two plots. */
struct lane {
    const struct analysis_power *p;
    struct chart_box box;
    bool watts; /* false: SM clock */
    double most;
};

static double lane_value(const struct lane *l, size_t i) {
    return l->watts ? (double)l->p->series[i].watts : (double)l->p->series[i].sm_mhz;
}

static double lane_x(const struct lane *l, uint64_t t) {
    double t0 = (double)l->p->series[0].time_ns, t1 = (double)l->p->series[l->p->n - 1].time_ns;
    return l->box.left + ((double)t - t0) / (t1 - t0) * (l->box.right - l->box.left);
}

static double sample_x(const void *data, size_t i) {
    const struct lane *l = data;
    return lane_x(l, l->p->series[MIN(i, l->p->n - 1)].time_ns);
}

/* Writes "at 12.3 ms: 412 W", or the largest of several samples. */
static void sample_title(const void *data, size_t first, size_t last, struct strbuf *out) {
    const struct lane *l = data;
    double most = NAN;
    for (size_t i = first; i <= last; i++) most = fmax(most, lane_value(l, i)); /* fmax ignores NaN */
    strbuf_addf(out, "at %s: %s%s %s",
                text_ms((double)(l->p->series[first].time_ns - l->p->series[0].time_ns) * 1e-6).s,
                last > first ? "at most " : "", text_num(most, 0).s, l->watts ? "W" : "MHz");
}

static void draw_marks(const struct lane *l, struct strbuf *out) {
    const struct analysis_power *p = l->p;
    for (size_t i = 0; i + 1 < p->n; i++)
        if (p->series[i].throttle_reasons & THROTTLE_BITS)
            svg_rect(out, sample_x(l, i), l->box.top, sample_x(l, i + 1) - sample_x(l, i),
                     l->box.bottom - l->box.top, "mark");
}

static void draw_lane(const struct lane *l, const struct chart_form *form, struct strbuf *out) {
    struct svg_path path;
    svg_text(out, 0, l->box.top - 10, SVG_START, "", l->watts ? "power" : "SM clock");
    chart_value_axis(&l->box, l->most, l->watts ? "W" : "MHz", out);
    draw_marks(l, out);
    svg_path_open(&path, out, l->watts ? "line" : "line2");
    for (size_t i = 0; i < l->p->n; i++)
        svg_path_to(&path, sample_x(l, i),
                    l->box.bottom - lane_value(l, i) / l->most * (l->box.bottom - l->box.top));
    svg_path_close(&path);
    const struct chart_hover hover = {
        .box = l->box, .n = l->p->n, .x = sample_x, .title = sample_title, .data = l
    };
    chart_hover(&hover, form, out);
}

bool chart_power_of(const struct analysis_power *p, const struct chart_form *form, struct strbuf *out) {
    if (p->n < 2 || p->series[p->n - 1].time_ns <= p->series[0].time_ns) return false;
    struct lane l = { .p = p, .box = { 74, form->width - 10, 24, 120 }, .watts = true };
    chart_open(form, 290, "Power and SM clock over time", out);
    l.most = p->watts_max > 0 ? ceil(p->watts_max / 50) * 50 : 1;
    draw_lane(&l, form, out);
    l = (struct lane){ .p = p, .box = { 74, form->width - 10, 162, 258 } };
    l.most = p->sm_mhz_max > 0 ? ceil(p->sm_mhz_max / 500) * 500 : 1;
    draw_lane(&l, form, out);
    chart_time_axis(&l.box, (double)(p->series[p->n - 1].time_ns - p->series[0].time_ns), out);
    svg_close(out);
    return true;
}

bool chart_power(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    for (size_t i = 0; v->a && i < v->a->npowers; i++)
        if (chart_power_of(&v->a->powers[i], form, out)) return true;
    return false;
}
