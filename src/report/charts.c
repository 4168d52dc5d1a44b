#include "report/charts.h"

#include "base/svg.h"
#include "base/util.h"

/* Same colours as web/report.css. */
static const char alone_css[] =
    ".r0{fill:#005fd0}.r1{fill:#5096fa}.r2{fill:#3e268d}.r3{fill:#41d39c}.r4{fill:#6e377d}"
    ".r5{fill:#bd60b6}.r6{fill:#d6bd3b}.r7{fill:#9d8414}.r8{fill:#95220b}.r9{fill:#ec5759}"
    ".r10{fill:#7f3d41}.r11{fill:#ffa2d8}.r12{fill:#77777f}.light{fill-opacity:.45}"
    "svg{background:#fff}text{font:12px "
    "system-ui,sans-serif;fill:#63636b}.ink{fill:#1d1d20}text.ink{paint-order:stroke;stroke:#fff;stroke-"
    "width:3px}.axis{stroke:#e4e2dd}"
    ".roof{stroke:#1d1d20;stroke-width:1.6;fill:none}.dashed{stroke-dasharray:5 "
    "4}.line{stroke:#3450b8;stroke-width:1.4;fill:none}"
    ".line2{stroke:#8f8f98;stroke-width:1.2;fill:none}.dot{fill:#3450b8;fill-opacity:.28;stroke:#3450b8}"
    ".stage{fill:#1d1d20;stroke:#fff;stroke-width:1.5}.mark{fill:#9a5b00;fill-opacity:.25}.busy{fill:#3450b8}"
    ".idle{fill:#d5d2cb}.track{fill:#efede9}.tick{fill:#1d1d20}text.on{fill:#fff;font-size:11px}"
    "@media(prefers-color-scheme:dark){svg{background:#1c1c1f}text{fill:#a5a5ae}.ink{fill:#ececef}text.ink{"
    "stroke:#1c1c1f}"
    ".axis{stroke:#303036}.roof{stroke:#ececef}.line{stroke:#93a8ff}.line2{stroke:#7c7c86}"
    ".dot{fill:#93a8ff;stroke:#93a8ff}.stage{fill:#ececef;stroke:#1c1c1f}.busy{fill:#93a8ff}.idle{fill:#"
    "45454d}"
    ".track{fill:#26262b}.tick{fill:#ececef}"
    ".r0{fill:#69a6ff}.r1{fill:#1a67d8}.r2{fill:#9667bf}.r3{fill:#46ffdc}.r4{fill:#a24c8a}"
    ".r5{fill:#f8b0f4}.r6{fill:#f2dea8}.r7{fill:#afa21c}.r8{fill:#5a752d}.r9{fill:#c85368}"
    ".r10{fill:#72b554}.r11{fill:#bde26f}.r12{fill:#9a9aa4}}";

const struct chart charts[] = {
    { "stages", chart_stages }, { "roofline", chart_roofline }, { "kernels", chart_kernels },
    { "power", chart_power },   { "anatomy", chart_anatomy },   { "batch", chart_batch },
    { "memory", chart_memory }, { "flame", chart_flame },
};
const size_t charts_n = COUNTOF(charts);

/* Similar categories share a colour; the second of them is hatched. */
int chart_category_color(enum kernel_category category) {
    switch (category) {
    case KERNEL_CATEGORY_GEMM: return 0;
    case KERNEL_CATEGORY_GEMV: return 1;
    case KERNEL_CATEGORY_CONV: return 2;
    case KERNEL_CATEGORY_ATTENTION: return 3;
    case KERNEL_CATEGORY_SOFTMAX: return CHART_HATCHED + 3;
    case KERNEL_CATEGORY_KV_CACHE: return 4;
    case KERNEL_CATEGORY_NORM: return 5;
    case KERNEL_CATEGORY_REDUCTION: return CHART_HATCHED + 5;
    case KERNEL_CATEGORY_ELEMENTWISE: return 6;
    case KERNEL_CATEGORY_QUANT: return CHART_HATCHED + 6;
    case KERNEL_CATEGORY_ROPE: return 7;
    case KERNEL_CATEGORY_COPY: return 8;
    case KERNEL_CATEGORY_EMBEDDING: return CHART_HATCHED + 8;
    case KERNEL_CATEGORY_MOE: return 9;
    case KERNEL_CATEGORY_COMMUNICATION: return 10;
    case KERNEL_CATEGORY_SORT: return 11;
    case KERNEL_CATEGORY_SAMPLING: return CHART_HATCHED + 11;
    default: return 12;
    }
}

void chart_open(const struct chart_form *form, double height, const char *title, struct strbuf *out) {
    svg_open(out, form->width, height, form->css_class, title);
    if (form->alone) svg_style(out, alone_css);
}
