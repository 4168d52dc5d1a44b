#include "report/chart_axis.h"

#include <math.h>
#include <stdio.h>

#include "base/svg.h"
#include "base/text.h"
#include "base/util.h"

#define TICK_PX 110.0 /* least distance between two labels of the time axis */

/* 1, 2 or 5 times a power of ten; at least `least` */
static double round_step(double least) {
    static const double digits[] = { 1, 2, 5, 10 };
    double power = pow(10, floor(log10(least)));
    size_t i = 0;
    while (i + 1 < COUNTOF(digits) && power * digits[i] < least * 0.999) i++;
    return power * digits[i];
}

void chart_time_axis(const struct chart_box *box, double span_ns, struct strbuf *out) {
    static const struct {
        double ns;
        const char *name;
    } units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "\u00b5s" }, { 1, "ns" } };
    double width = box->right - box->left;
    size_t u = 0;
    if (!(span_ns > 0) || !(width > 0)) return;
    while (u + 1 < COUNTOF(units) && span_ns < units[u].ns) u++;
    double step = round_step(span_ns / fmax(1, floor(width / TICK_PX)));
    svg_line(out, box->left, box->bottom, box->right, box->bottom, "axis");
    for (double t = 0; t <= span_ns * 1.0001; t += step) {
        double x = box->left + t / span_ns * width;
        char label[48];
        snprintf(label, sizeof label, "%.6g %s", t / units[u].ns, units[u].name);
        svg_line(out, x, box->bottom, x, box->bottom + 4, "axis");
        svg_text(out, x, box->bottom + 17,
                 t == 0                ? SVG_START
                 : x > box->right - 24 ? SVG_END
                                       : SVG_MIDDLE,
                 "", label);
    }
}

void chart_value_axis(const struct chart_box *box, double most, const char *unit, struct strbuf *out) {
    for (int half = 0; half <= 2; half++) {
        double value = most * half / 2, y = box->bottom - (box->bottom - box->top) * half / 2;
        char label[64];
        if (half == 1 && !*unit && value != floor(value)) continue; /* half of a thing that is counted */
        snprintf(label, sizeof label, "%s%s%s", text_num(value, value == floor(value) ? 0 : 1).s,
                 *unit ? " " : "", unit);
        svg_line(out, box->left, y, box->right, y, "axis");
        svg_text(out, box->left - 6, y + 4, SVG_END, "", label);
    }
}

void chart_hover(const struct chart_hover *hover, const struct chart_form *form, struct strbuf *out) {
    struct strbuf title = STRBUF_INIT;
    if (form->width < CHART_WIDE) return;
    for (size_t i = 0, next; i < hover->n; i = next) {
        double x = hover->x(hover->data, i);
        next = i + 1;
        while (next < hover->n && hover->x(hover->data, next) - x < CHART_HOVER_PX) next++;
        strbuf_reset(&title);
        hover->title(hover->data, i, next - 1, &title);
        svg_rect_titled(out, x, hover->box.top, hover->x(hover->data, next) - x,
                        hover->box.bottom - hover->box.top, "hover", title.buf);
    }
    strbuf_free(&title);
}
