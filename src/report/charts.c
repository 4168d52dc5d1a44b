#include "report/charts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/svg.h"
#include "base/util.h"
#include "report/text.h"

/* The colours of web/report.css, for standalone files. */
static const char alone_css[] =
    "svg{background:#fff}text{font:12px "
    "system-ui,sans-serif;fill:#63636b}.ink{fill:#1d1d20}.axis{stroke:#e4e2dd}"
    ".roof{stroke:#1d1d20;stroke-width:1.6;fill:none}.line{stroke:#3450b8;stroke-width:1.4;fill:none}"
    ".line2{stroke:#8f8f98;stroke-width:1.2;fill:none}.dot{fill:#3450b8;fill-opacity:.28;stroke:#3450b8}"
    ".stage{fill:#1d1d20;stroke:#fff;stroke-width:1.5}.mark{fill:#9a5b00;fill-opacity:.25}.busy{fill:#3450b8}"
    ".idle{fill:#d5d2cb}.track{fill:#efede9}.tick{fill:#1d1d20}"
    "@media(prefers-color-scheme:dark){svg{background:#1c1c1f}text{fill:#a5a5ae}.ink{fill:#ececef}"
    ".axis{stroke:#303036}.roof{stroke:#ececef}.line{stroke:#93a8ff}.line2{stroke:#7c7c86}"
    ".dot{fill:#93a8ff;stroke:#93a8ff}.stage{fill:#ececef;stroke:#1c1c1f}.busy{fill:#93a8ff}.idle{fill:#"
    "45454d}"
    ".track{fill:#26262b}.tick{fill:#ececef}}";

const struct chart charts[] = {
    { "stages", chart_stages },
    { "roofline", chart_roofline },
    { "kernels", chart_kernels },
    { "power", chart_power },
};
const size_t charts_n = COUNTOF(charts);

int chart_category_color(enum kernel_category category) {
    switch (category) {
    case KERNEL_CATEGORY_GEMM: return 0;
    case KERNEL_CATEGORY_GEMV: return 5;
    case KERNEL_CATEGORY_CONV: return 5;
    case KERNEL_CATEGORY_ATTENTION:
    case KERNEL_CATEGORY_SOFTMAX:
    case KERNEL_CATEGORY_KV_CACHE: return 1;
    case KERNEL_CATEGORY_NORM:
    case KERNEL_CATEGORY_REDUCTION: return 2;
    case KERNEL_CATEGORY_ELEMENTWISE:
    case KERNEL_CATEGORY_ROPE:
    case KERNEL_CATEGORY_QUANT: return 6;
    case KERNEL_CATEGORY_COPY:
    case KERNEL_CATEGORY_EMBEDDING: return 3;
    case KERNEL_CATEGORY_MOE:
    case KERNEL_CATEGORY_SORT:
    case KERNEL_CATEGORY_SAMPLING:
    case KERNEL_CATEGORY_COMMUNICATION: return 4;
    default: return 7;
    }
}

static void start(const struct chart_form *form, double height, const char *title, struct strbuf *out) {
    svg_open(out, form->width, height, form->css_class, title);
    if (form->alone) svg_style(out, alone_css);
}

const char *chart_alone_css(void) { return alone_css; }

/* ---- stages: time, GPU busy time, and the floor as a tick */
static double longest_stage(const struct view *v) {
    double most = 0;
    for (size_t i = 0; i < v->nstages; i++)
        if (isfinite(v->stages[i]->time_ms)) most = fmax(most, v->stages[i]->time_ms);
    return most;
}

bool chart_stages(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    double most = longest_stage(v), left = 110, right = 220, row = 30, y = 12;
    if (!(most > 0)) return false;
    double scale = (form->width - left - right) / most;
    start(form, row * (double)v->nstages + 24,
          view_on_cpu(v) ? "Time of each stage, busy time and floor"
                         : "Time of each stage, GPU busy time and floor",
          out);
    for (size_t i = 0; i < v->nstages; i++) {
        const struct analysis_stage *s = v->stages[i];
        if (!isfinite(s->time_ms)) continue;
        char label[128];
        snprintf(label, sizeof label, "%s%s", text_ms(s->time_ms).s, isfinite(s->distance) ? ", " : "");
        if (isfinite(s->distance))
            snprintf(label + strlen(label), sizeof label - strlen(label), "%s the floor",
                     text_times(s->distance).s);
        svg_text(out, s->depth ? 14 : 0, y + 14, SVG_START, s->depth ? "" : "ink", s->name);
        svg_rect(out, left, y, s->time_ms * scale, 20, "idle");
        if (isfinite(s->busy_ms)) svg_rect(out, left, y, fmin(s->busy_ms, s->time_ms) * scale, 20, "busy");
        if (isfinite(s->floor_ms)) svg_rect(out, left + s->floor_ms * scale - 1, y - 4, 2, 28, "tick");
        svg_text(out, form->width - right + 10, y + 14, SVG_START, "ink", label);
        y += row;
    }
    svg_close(out);
    return true;
}

/* ---- kernels: the ten classes with most time */
bool chart_kernels(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    size_t n = v->a ? MIN(v->a->nkernels, 10) : 0;
    if (n == 0 || !(v->a->kernels[0].share > 0)) return false;
    double left = form->width * 0.42, right = 70, y = 10;
    double scale = (form->width - left - right) / v->a->kernels[0].share;
    start(form, 24 * (double)n + 20,
          view_on_cpu(v) ? "Kernels by share of busy time" : "Kernels by share of GPU busy time", out);
    for (size_t i = 0; i < n; i++, y += 24) {
        const struct analysis_kernel *k = &v->a->kernels[i];
        char name[48];
        snprintf(name, sizeof name, "%.44s", k->short_name);
        svg_text(out, left - 10, y + 13, SVG_END, "ink", name);
        svg_rect(out, left, y, k->share * scale, 16, "busy");
        svg_text(out, left + k->share * scale + 6, y + 13, SVG_START, "", text_percent(k->share).s);
    }
    svg_close(out);
    return true;
}
