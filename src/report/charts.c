#include "report/charts.h"

#include <math.h>
#include <stdio.h>

#include "base/svg.h"
#include "base/util.h"

#define STRIPE_PX 5.0 /* distance of stripes */

/* Same colours as web/report.css. */
static const char alone_css[] =
    ".r0{fill:#005fd0}.r1{fill:#5096fa}.r2{fill:#3e268d}.r3{fill:#41d39c}.r4{fill:#6e377d}"
    ".r5{fill:#bd60b6}.r6{fill:#d6bd3b}.r7{fill:#9d8414}.r8{fill:#95220b}.r9{fill:#ec5759}"
    ".r10{fill:#7f3d41}.r11{fill:#ffa2d8}.r12{fill:#77777f}.stripes{stroke:#fff;stroke-width:1.5}.hover{fill:"
    "transparent}"
    "svg{background:#fff}text{font:12px "
    "system-ui,sans-serif;fill:#63636b}.ink{fill:#1d1d20}text.ink{paint-order:stroke;stroke:#fff;stroke-"
    "width:3px}.axis{stroke:#e4e2dd}"
    ".roof{stroke:#1d1d20;stroke-width:1.6;fill:none}.dashed{stroke-dasharray:5 "
    "4}.line{stroke:#3450b8;stroke-width:1.4;fill:none}"
    ".line2{stroke:#8f8f98;stroke-width:1.2;fill:none}.dot{fill:#3450b8;fill-opacity:.28;stroke:#3450b8}"
    ".stage{fill:#1d1d20;stroke:#fff;stroke-width:1.5}.mark{fill:#9a5b00;fill-opacity:.25}.busy{fill:#3450b8}"
    ".idle{fill:#d5d2cb}.unknown{fill:#dde3f7}"
    ".track{fill:#efede9}.tick{fill:#1d1d20}text.on{fill:#1d1d20;font-size:11px}"
    ".host0{fill:#efede9}.host1{fill:#e2dfd9}.host2{fill:#d5d2cb}"
    "@media(prefers-color-scheme:dark){svg{background:#1c1c1f}.stripes{stroke:#1c1c1f}text{fill:#a5a5ae}.ink{"
    "fill:#ececef}text.ink{"
    "stroke:#1c1c1f}"
    ".axis{stroke:#303036}.roof{stroke:#ececef}.line{stroke:#93a8ff}.line2{stroke:#7c7c86}"
    ".dot{fill:#93a8ff;stroke:#93a8ff}.stage{fill:#ececef;stroke:#1c1c1f}.busy{fill:#93a8ff}.idle{fill:#"
    "45454d}.unknown{fill:#2a3157}"
    ".track{fill:#26262b}.tick{fill:#ececef}text.on{fill:#ececef}"
    ".host0{fill:#26262b}.host1{fill:#36363c}.host2{fill:#45454d}"
    ".r0{fill:#69a6ff}.r1{fill:#1a67d8}.r2{fill:#9667bf}.r3{fill:#46ffdc}.r4{fill:#a24c8a}"
    ".r5{fill:#f8b0f4}.r6{fill:#f2dea8}.r7{fill:#afa21c}.r8{fill:#5a752d}.r9{fill:#c85368}"
    ".r10{fill:#72b554}.r11{fill:#bde26f}.r12{fill:#9a9aa4}}";

const struct chart charts[] = {
    { "stages", chart_stages }, { "roofline", chart_roofline }, { "kernels", chart_kernels },
    { "power", chart_power },   { "anatomy", chart_anatomy },   { "batch", chart_batch },
    { "memory", chart_memory }, { "flame", chart_flame },
};
const size_t charts_n = COUNTOF(charts);

int chart_category_color(enum kernel_category category) {
    static const int colors[KERNEL_CATEGORY_END] = {
        [KERNEL_CATEGORY_GEMM] = 0,
        [KERNEL_CATEGORY_GEMV] = 1,
        [KERNEL_CATEGORY_CONV] = 2,
        [KERNEL_CATEGORY_ATTENTION] = 3,
        [KERNEL_CATEGORY_SOFTMAX] = CHART_HATCHED + 3,
        [KERNEL_CATEGORY_KV_CACHE] = 4,
        [KERNEL_CATEGORY_NORM] = 5,
        [KERNEL_CATEGORY_REDUCTION] = CHART_HATCHED + 5,
        [KERNEL_CATEGORY_ELEMENTWISE] = 6,
        [KERNEL_CATEGORY_QUANT] = CHART_HATCHED + 6,
        [KERNEL_CATEGORY_ROPE] = 7,
        [KERNEL_CATEGORY_COPY] = 8,
        [KERNEL_CATEGORY_EMBEDDING] = CHART_HATCHED + 8,
        [KERNEL_CATEGORY_MOE] = 9,
        [KERNEL_CATEGORY_COMMUNICATION] = 10,
        [KERNEL_CATEGORY_WAIT] = CHART_HATCHED + 10,
        [KERNEL_CATEGORY_SORT] = 11,
        [KERNEL_CATEGORY_SAMPLING] = CHART_HATCHED + 11,
        [KERNEL_CATEGORY_OTHER] = 12,
        [KERNEL_CATEGORY_GRAPH] = CHART_HATCHED + 12,
    };
    return colors[category];
}

int chart_role_color(enum kernel_role role) {
    static const int colors[ROLE_END] = {
        [ROLE_QKV] = 0, /* matrix products have the colours of the categories of products */
        [ROLE_OUTPUT] = CHART_HATCHED + 0,
        [ROLE_MLP] = 1,
        [ROLE_LM_HEAD] = CHART_HATCHED + 1,
        [ROLE_EXPERTS] = 2,
        [ROLE_SHARED_EXPERTS] = CHART_HATCHED + 2,
        [ROLE_ATTENTION] = 3,
        [ROLE_KV_WRITE] = 4,
        [ROLE_NORM] = 5,
        [ROLE_ROTARY] = 7,
        [ROLE_COPY] = 8,
        [ROLE_EMBEDDING] = CHART_HATCHED + 8,
        [ROLE_ROUTER] = 9,
        [ROLE_COMMUNICATION] = 10,
        [ROLE_SAMPLING] = CHART_HATCHED + 11,
        [ROLE_OTHER] = 12,
    };
    return colors[role];
}

struct chart_class chart_class(char prefix, int color) {
    struct chart_class c;
    snprintf(c.s, sizeof c.s, "%c%d%s", prefix, color % CHART_HATCHED,
             color >= CHART_HATCHED ? " hatched" : "");
    return c;
}

void chart_stripes(double x, double y, double w, double h, struct strbuf *out) {
    if (!(w > 0 && h > 0)) return;
    strbuf_addstr(out, "<path class=\"stripes\" d=\"");
    for (double k = STRIPE_PX / 2; k < w + h; k += STRIPE_PX)
        strbuf_addf(out, "M%.1f %.1fL%.1f %.1f", x + fmax(0, k - h), y + fmin(k, h), x + fmin(k, w),
                    y + fmax(0, k - w));
    strbuf_addstr(out, "\"/>\n");
}

void chart_rect(double x, double y, double w, double h, int color, const char *title, struct strbuf *out) {
    svg_rect_titled(out, x, y, w, h, chart_class('r', color % CHART_HATCHED).s, title);
    if (color >= CHART_HATCHED) chart_stripes(x, y, w, h, out);
}

/* ---- print */

/* CSS background-image; %s: colour of its lines. web/timeline.js draws the same motifs. */
static const char *const motifs[] = {
    "none",
    "repeating-linear-gradient(135deg,%s 0 1.2px,transparent 1.2px 4.2px)",
    "repeating-linear-gradient(45deg,%s 0 1.2px,transparent 1.2px 4.2px)",
    "repeating-linear-gradient(0deg,%s 0 1.2px,transparent 1.2px 4px)",
    "repeating-linear-gradient(90deg,%s 0 1.2px,transparent 1.2px 4px)",
    "radial-gradient(circle,%s 1px,transparent 1.3px);background-size:4px 4px",
    ("repeating-linear-gradient(0deg,%s 0 1px,transparent 1px 4px),"
     "repeating-linear-gradient(90deg,%s 0 1px,transparent 1px 4px)"),
};
/* The motif of each colour, plain and hatched. Two colours of similar lightness have different motifs
 * (tests/tools/color_difference.py). */
static const unsigned char motif_of[CHART_COLORS][2] = {
    { 0, 3 }, { 0, 3 }, { 0, 3 }, { 2, 6 }, { 1, 1 }, { 5, 3 }, { 5, 1 },
    { 1, 1 }, { 4, 6 }, { 2, 1 }, { 2, 3 }, { 3, 4 }, { 6, 4 },
};

/* Colour of the lines of a motif: black on the light colours, white on the others. */
static const char *motif_ink(int color) {
    return color == 1 || color == 3 || color == 6 || color == 11 ? "#000" : "#fff";
}

void chart_print_style(struct strbuf *out) {
    strbuf_addstr(out, "<style>\n@media print {\n");
    for (int c = 0; c < CHART_COLORS; c++)
        for (int hatched = 0; hatched < 2; hatched++) {
            strbuf_addf(out, ":is(#kernels, #timeline) .c%d%s { background-image: ", c,
                        hatched ? ".hatched" : "");
            strbuf_addf(out, motifs[motif_of[c][hatched]], motif_ink(c), motif_ink(c));
            strbuf_addstr(out, "; }\n");
        }
    strbuf_addstr(out, "}\n:root {");
    for (int c = 0; c < CHART_COLORS; c++)
        strbuf_addf(out, " --motif%d: %d; --motif%d: %d;", c, motif_of[c][0], CHART_HATCHED + c,
                    motif_of[c][1]);
    strbuf_addstr(out, " }\n</style>\n");
}

void chart_open(const struct chart_form *form, double height, const char *title, struct strbuf *out) {
    svg_open(out, form->width, height, form->css_class, title);
    if (form->alone) svg_style(out, alone_css);
}
