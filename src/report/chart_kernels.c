/* The ten longest kernel classes. */
#include <stdio.h>

#include "base/svg.h"
#include "base/text.h"
#include "base/util.h"
#include "report/charts.h"

bool chart_kernels(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    size_t n = v->a ? MIN(v->a->nkernels, 10) : 0;
    if (n == 0 || !(v->a->kernels[0].share > 0)) return false;
    double left = form->width * 0.42, right = 70, y = 10;
    double scale = (form->width - left - right) / v->a->kernels[0].share;
    chart_open(form, 24 * (double)n + 20,
               view_on_cpu(v) ? "Kernels by share of busy time" : "Kernels by share of GPU busy time", out);
    for (size_t i = 0; i < n; i++, y += 24) {
        const struct analysis_kernel *k = &v->a->kernels[i];
        char name[48];
        snprintf(name, sizeof name, "%.44s", k->short_name);
        svg_text(out, left - 10, y + 13, SVG_END, "ink", name);
        char title[192];
        snprintf(title, sizeof title, "%.60s, %s: %s in %s calls", k->short_name,
                 kernel_category_name(k->category), text_ms(k->owned_ns * 1e-6).s, text_count(k->calls).s);
        chart_rect(left, y, k->share * scale, 16, chart_category_color(k->category), title, out);
        svg_text(out, left + k->share * scale + 6, y + 13, SVG_START, "", text_percent(k->share).s);
    }
    svg_close(out);
    return true;
}
