#include "report/charts.h"

#include "base/svg.h"
#include "base/util.h"

/* The colours of web/report.css, for standalone files. */
static const char alone_css[] =
    ".r0{fill:#3450b8}.r1{fill:#1d8a8a}.r2{fill:#8a4fb0}.r3{fill:#b3543e}"
    ".r4{fill:#7d8a2e}.r5{fill:#2f7fc2}.r6{fill:#a8791c}.r7{fill:#77777f}"
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
    { "stages", chart_stages }, { "roofline", chart_roofline }, { "kernels", chart_kernels },
    { "power", chart_power },   { "anatomy", chart_anatomy },
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

void chart_open(const struct chart_form *form, double height, const char *title, struct strbuf *out) {
    svg_open(out, form->width, height, form->css_class, title);
    if (form->alone) svg_style(out, alone_css);
}
