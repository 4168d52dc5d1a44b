/* The roofline: kernels, operators and stages by FLOP/s and FLOP per byte, both logarithmic. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/svg.h"
#include "base/text.h"
#include "base/units.h"
#include "base/util.h"
#include "report/chart_labels.h"
#include "report/charts.h"

#define TEXT_DROP 4.0 /* from the middle of a mark to the baseline of its label, in pixels */

struct plane {
    double x0, x1, y0, y1;           /* bounds of the data, log10 */
    double left, right, top, bottom; /* edges of the plot */
};

static double px(const struct plane *p, double intensity) {
    return p->left + (log10(intensity) - p->x0) / (p->x1 - p->x0) * (p->right - p->left);
}
static double py(const struct plane *p, double rate) {
    return p->bottom - (log10(rate) - p->y0) / (p->y1 - p->y0) * (p->bottom - p->top);
}

static bool drawable(const struct analysis_point *p) {
    return p->intensity > 0 && p->flop_per_s > 0 && isfinite(p->intensity) && isfinite(p->flop_per_s);
}

static void include(struct plane *p, double intensity, double rate) {
    p->x0 = fmin(p->x0, log10(intensity));
    p->x1 = fmax(p->x1, log10(intensity));
    p->y0 = fmin(p->y0, log10(rate));
    p->y1 = fmax(p->y1, log10(rate));
}

/* Sets the bounds, with a margin. Returns false if there is no point. */
static bool fit(struct plane *p, const struct analysis *a, double peak_flops, double peak_bytes) {
    bool any = false;
    *p = (struct plane){ .x0 = INFINITY, .x1 = -INFINITY, .y0 = INFINITY, .y1 = -INFINITY };
    for (size_t i = 0; i < a->nroofline; i++)
        if (drawable(&a->roofline[i])) {
            include(p, a->roofline[i].intensity, a->roofline[i].flop_per_s);
            any = true;
        }
    if (!any) return false;
    if (peak_flops > 0 && peak_bytes > 0) include(p, peak_flops / peak_bytes, peak_flops);
    p->x0 -= 0.5;
    p->x1 += 0.5;
    p->y0 -= 0.4;
    p->y1 += 0.3;
    return true;
}

static void draw_axes(const struct plane *p, struct strbuf *out) {
    static const char *const prefixes[] = { "", "k", "M", "G", "T", "P", "E" };
    char label[48];
    for (double d = ceil(p->x0); d <= p->x1; d++) {
        double x = px(p, pow(10, d));
        svg_line(out, x, p->top, x, p->bottom, "axis");
        snprintf(label, sizeof label, "%g%s", pow(10, d >= 3 ? d - 3 : d), d >= 3 ? "k" : "");
        svg_text(out, x, p->bottom + 16, SVG_MIDDLE, "", label);
    }
    for (double d = fmax(0, ceil(p->y0)); d <= p->y1; d++) {
        double y = py(p, pow(10, d));
        svg_line(out, p->left, y, p->right, y, "axis");
        snprintf(label, sizeof label, "%g %sF", pow(10, fmod(d, 3)),
                 prefixes[MIN((size_t)(d / 3), COUNTOF(prefixes) - 1)]);
        svg_text(out, p->left - 6, y + 4, SVG_END, "", label);
    }
    svg_line(out, p->left, p->bottom, p->right, p->bottom, "axis");
    svg_text(out, (p->left + p->right) / 2, p->bottom + 34, SVG_MIDDLE, "", "FLOP per byte");
    svg_text(out, p->left, p->top - 8, SVG_START, "", "FLOP/s");
}

static void draw_roof(const struct plane *p, double peak_flops, double peak_bytes, struct strbuf *out) {
    if (!(peak_flops > 0 && peak_bytes > 0)) return;
    struct svg_path path;
    double ridge = peak_flops / peak_bytes, from = fmax(pow(10, p->x0), pow(10, p->y0) / peak_bytes);
    svg_path_open(&path, out, "roof");
    svg_path_to(&path, px(p, from), py(p, from * peak_bytes));
    svg_path_to(&path, px(p, ridge), py(p, peak_flops));
    svg_path_to(&path, p->right, py(p, peak_flops));
    svg_path_close(&path);
    char label[64], number[32];
    snprintf(label, sizeof label, "%s/s", units_flops(peak_flops, number, sizeof number));
    svg_text(out, p->right - 4, py(p, peak_flops) - 6, SVG_END, "ink", label);
    snprintf(label, sizeof label, "%s/s", units_bytes(peak_bytes, number, sizeof number));
    double mid = sqrt(from * ridge);
    svg_text(out, px(p, mid) - 8, py(p, mid * peak_bytes) - 6, SVG_END, "ink", label);
}

/* Draws a dashed memory roof for the read bandwidth that `calibrate` measured. */
static void draw_read_roof(const struct plane *p, double peak_flops, double read_bytes, struct strbuf *out) {
    if (!(peak_flops > 0 && read_bytes > 0)) return;
    double from = fmax(pow(10, p->x0), pow(10, p->y0) / read_bytes), ridge = peak_flops / read_bytes;
    struct svg_path path;
    svg_path_open(&path, out, "roof dashed");
    svg_path_to(&path, px(p, from), py(p, from * read_bytes));
    svg_path_to(&path, px(p, ridge), py(p, peak_flops));
    svg_path_close(&path);
}

static void draw_point(const struct plane *p, const struct analysis_point *at, double longest,
                       struct chart_labels *labels, struct strbuf *out) {
    bool stage = at->stage != ANALYSIS_NONE;
    double x = px(p, at->intensity), y = py(p, at->flop_per_s);
    double r = stage ? 5 : 3 + 11 * sqrt(fmax(0, at->time_ns) / longest);
    char title[640], number[32];
    snprintf(title, sizeof title, "%.150s: %s/s, %.3g FLOP/byte, %s of the roof%s%.400s", at->label,
             units_flops(at->flop_per_s, number, sizeof number), at->intensity, text_percent(at->attained).s,
             at->over.text ? "; " : "", at->over.text ? at->over.text : "");
    svg_circle(out, x, y, r, stage ? "stage" : "dot", title);
    if (!stage) return;
    bool flip = x > p->right - 130;
    char label[128];
    bool over = at->attained > 1 && at->over.brief;
    snprintf(label, sizeof label, "%.40s, %s%s%s", at->label, text_percent(at->attained).s, over ? ": " : "",
             over ? at->over.brief : "");
    double wide = 6.6 * (double)strlen(label), from = flip ? x - 9 - wide : x + 9;
    double near = flip ? x - 9 : x + 9,
           baseline = chart_labels_place(labels, from, from + wide, y + TEXT_DROP);
    if (baseline > y + TEXT_DROP) svg_line(out, x, y, near, baseline - TEXT_DROP, "line2");
    svg_text(out, near, baseline, flip ? SVG_END : SVG_START, "ink", label);
}

/* Keeps labels off the dots of the stages. */
static void reserve_dots(const struct plane *p, const struct analysis *a, struct chart_labels *labels) {
    for (size_t i = 0; i < a->nroofline; i++) {
        const struct analysis_point *at = &a->roofline[i];
        if (at->stage == ANALYSIS_NONE || !drawable(at)) continue;
        double x = px(p, at->intensity);
        chart_labels_reserve(labels, x - 7, x + 7, py(p, at->flop_per_s) + TEXT_DROP);
    }
}

bool chart_roofline(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    struct plane p;
    struct chart_labels labels = { .n = 0 };
    double peak_flops = view_peak_flops(v), peak_bytes = view_peak_bytes(v), longest = 1;
    if (!isfinite(peak_flops) && !isfinite(peak_bytes)) return false; /* no roof to compare with */
    if (!v->a || !fit(&p, v->a, peak_flops, peak_bytes)) return false;
    double height = form->width > 600 ? 420 : 330;
    p.left = 62;
    p.right = form->width - 12;
    p.top = 24;
    p.bottom = height - 44;
    chart_open(form, height, "Roofline: performance of each kernel and stage compared with the device limit",
               out);
    draw_axes(&p, out);
    draw_roof(&p, peak_flops, peak_bytes, out);
    draw_read_roof(&p, peak_flops, v->run->peak.read_bytes_per_s, out);
    for (size_t i = 0; i < v->a->nroofline; i++)
        if (v->a->roofline[i].stage == ANALYSIS_NONE && drawable(&v->a->roofline[i]))
            longest = fmax(longest, v->a->roofline[i].time_ns);
    reserve_dots(&p, v->a, &labels);
    for (int stages = 0; stages < 2; stages++) /* stages last: on top */
        for (size_t i = 0; i < v->a->nroofline; i++)
            if (drawable(&v->a->roofline[i]) && (v->a->roofline[i].stage != ANALYSIS_NONE) == stages)
                draw_point(&p, &v->a->roofline[i], longest, &labels, out);
    svg_close(out);
    return true;
}
