/* Draws a sweep: three panels over one logarithmic axis (time; tokens/s; MFU and MBU, all at the
 * roofline), with the crossover points as vertical lines. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/svg.h"
#include "base/units.h"
#include "base/util.h"
#include "llm/sweep.h"

enum { WIDTH = 760, LEFT = 90, RIGHT = 150, TOP = 46, PANEL = 150, GAP = 34, PANELS = 3 };
#define PLOT_WIDTH (WIDTH - LEFT - RIGHT)

#define HOVER_PX 6.0 /* least width of a column with a tooltip */

static const char style[] =
    "text{font:12px "
    "sans-serif;fill:#333}.title{font-size:15px;font-weight:bold}.small{font-size:11px;fill:#666}"
    ".frame{fill:none;stroke:#999}.grid{stroke:#ddd}.turn{stroke:#b00;stroke-dasharray:4 "
    "3}.turnname{fill:#b00;font-size:11px}"
    ".a{fill:none;stroke:#1f6fb2;stroke-width:2}.b{fill:none;stroke:#d9730d;stroke-width:2}"
    ".c{fill:none;stroke:#1f6fb2;stroke-width:2;stroke-dasharray:5 "
    "3}.d{fill:none;stroke:#d9730d;stroke-width:2;stroke-dasharray:5 3}"
    ".hover{fill:transparent}.keya{fill:#1f6fb2}.keyb{fill:#d9730d}";

typedef double (*value_of)(const struct llm_sweep_point *p);
static double prefill_s(const struct llm_sweep_point *p) { return p->prefill_s; }
static double decode_s(const struct llm_sweep_point *p) { return p->decode_s; }
static double tokens(const struct llm_sweep_point *p) { return p->tokens_per_s; }
static double prefill_mfu(const struct llm_sweep_point *p) { return p->prefill_mfu; }
static double decode_mfu(const struct llm_sweep_point *p) { return p->decode_mfu; }
static double prefill_mbu(const struct llm_sweep_point *p) { return p->prefill_mbu; }
static double decode_mbu(const struct llm_sweep_point *p) { return p->decode_mbu; }

struct line {
    const char *name, *css, *key_css;
    value_of value;
};
enum scale { SCALE_SECONDS, SCALE_COUNT, SCALE_SHARE };
static const struct panel {
    const char *name;
    enum scale scale;
    struct line lines[4];
    size_t n;
} panels[PANELS] = {
    { "roofline time",
      SCALE_SECONDS,
      { { "prefill", "b", "keyb", prefill_s }, { "decode step", "a", "keya", decode_s } },
      2 },
    { "tokens/s at the roofline", SCALE_COUNT, { { "decode", "a", "keya", tokens } }, 1 },
    { "MFU and MBU at the roofline",
      SCALE_SHARE,
      { { "prefill MFU", "b", "keyb", prefill_mfu },
        { "prefill MBU (dashed)", "d", "keyb", prefill_mbu },
        { "decode MFU", "a", "keya", decode_mfu },
        { "decode MBU (dashed)", "c", "keya", decode_mbu } },
      4 },
};

struct axis {
    double low, high; /* decades for logarithmic scales, 0..1 for fractions */
};

static double x_of(const struct llm_sweep *s, double v) {
    double span = log((double)s->to / (double)s->from);
    return LEFT + (span > 0 ? log(v / (double)s->from) / span * PLOT_WIDTH : PLOT_WIDTH / 2.0);
}

static struct axis axis_of(const struct llm_sweep *s, const struct panel *p) {
    struct axis a = { INFINITY, -INFINITY };
    if (p->scale == SCALE_SHARE) return (struct axis){ 0, 1 };
    for (size_t k = 0; k < p->n; k++)
        for (size_t i = 0; i < s->npoints; i++) {
            double v = log10(p->lines[k].value(&s->points[i]));
            if (isfinite(v)) {
                a.low = fmin(a.low, v);
                a.high = fmax(a.high, v);
            }
        }
    if (!isfinite(a.low)) return (struct axis){ 0, 1 };
    a.low = floor(a.low + 1e-9);
    a.high = fmax(ceil(a.high - 1e-9), a.low + 1);
    return a;
}

static double y_of(const struct panel *p, const struct axis *a, double top, double v) {
    double at = p->scale == SCALE_SHARE ? v : (log10(v) - a->low) / (a->high - a->low);
    return top + PANEL * (1 - at);
}

static void format_value(const struct panel *p, double v, char *text, size_t cap) {
    if (p->scale == SCALE_SECONDS)
        units_duration_ns(v * 1e9, text, cap);
    else if (p->scale == SCALE_COUNT)
        units_count(v, text, cap);
    else
        snprintf(text, cap, "%.0f%%", v * 100);
}

static void draw_ticks(struct strbuf *out, const struct panel *p, const struct axis *a, double top) {
    char text[32];
    int n = p->scale == SCALE_SHARE ? 4 : (int)(a->high - a->low);
    int every = MAX(1, (n + 5) / 6);
    for (int i = 0; i <= n; i += every) {
        double v = p->scale == SCALE_SHARE ? i / 4.0 : pow(10, a->low + i), y = y_of(p, a, top, v);
        svg_line(out, LEFT, y, LEFT + PLOT_WIDTH, y, "grid");
        format_value(p, v, text, sizeof text);
        svg_text(out, LEFT - 6, y + 4, SVG_END, "small", text);
    }
}

/* Draws at most a few hundred vertices per line, for any number of points. */
static void draw_line(struct strbuf *out, const struct llm_sweep *s, const struct panel *p,
                      const struct line *l, const struct axis *a, double top) {
    struct svg_path path;
    double last_x = -INFINITY;
    svg_path_open(&path, out, l->css);
    for (size_t i = 0; i < s->npoints; i++) {
        double x = x_of(s, (double)s->points[i].value);
        if (x - last_x < 1 && i + 1 != s->npoints) continue;
        svg_path_to(&path, x, y_of(p, a, top, l->value(&s->points[i])));
        last_x = x;
    }
    svg_path_close(&path);
}

/* Invisible columns with the values of all lines as tooltip. */
static void draw_hover(struct strbuf *out, const struct llm_sweep *s, const struct panel *p, double top) {
    struct strbuf title = STRBUF_INIT;
    for (size_t i = 0, next; i < s->npoints; i = next) {
        double x = x_of(s, (double)s->points[i].value), end = x;
        for (next = i + 1; next < s->npoints && end - x < HOVER_PX; next++)
            end = x_of(s, (double)s->points[next].value);
        strbuf_reset(&title);
        strbuf_addf(&title, "%llu: ", (unsigned long long)s->points[i].value);
        for (size_t k = 0; k < p->n; k++) {
            char text[32];
            format_value(p, p->lines[k].value(&s->points[i]), text, sizeof text);
            strbuf_addf(&title, "%s%s %s", k ? ", " : "", p->lines[k].name, text);
        }
        svg_rect_titled(out, x - HOVER_PX / 2, top, fmax(end - x, HOVER_PX), PANEL, "hover", title.buf);
        if (end - x >= HOVER_PX) next--; /* the next column begins at `end` */
    }
    strbuf_free(&title);
}

static void draw_panel(struct strbuf *out, const struct llm_sweep *s, const struct panel *p, double top) {
    struct axis a = axis_of(s, p);
    draw_ticks(out, p, &a, top);
    svg_rect(out, LEFT, top, PLOT_WIDTH, PANEL, "frame");
    svg_text(out, LEFT, top - 6, SVG_START, "", p->name);
    for (size_t k = 0; k < p->n; k++) {
        draw_line(out, s, p, &p->lines[k], &a, top);
        svg_rect(out, LEFT + PLOT_WIDTH + 12, top + 6 + 18 * (double)k, 10, 3, p->lines[k].key_css);
        svg_text(out, LEFT + PLOT_WIDTH + 26, top + 12 + 18 * (double)k, SVG_START, "small",
                 p->lines[k].name);
    }
    draw_hover(out, s, p, top);
}

static void draw_crossover(struct strbuf *out, const struct llm_sweep *s, const char *stage, uint64_t v,
                           double label_y) {
    char text[80];
    if (!v) return;
    double x = x_of(s, (double)v);
    svg_line(out, x, TOP, x, TOP + PANELS * PANEL + (PANELS - 1) * GAP, "turn");
    snprintf(text, sizeof text, "%s compute-bound from %" PRIu64, stage, v);
    bool right = x > LEFT + PLOT_WIDTH * 0.6;
    svg_text(out, x + (right ? -4 : 4), label_y, right ? SVG_END : SVG_START, "turnname", text);
}

static void draw_x_axis(struct strbuf *out, const struct llm_sweep *s, double y) {
    char text[32];
    for (int i = 0; i <= 4; i++) {
        double v = (double)s->from * pow((double)s->to / (double)s->from, i / 4.0);
        svg_text(out, x_of(s, v), y + 16, SVG_MIDDLE, "small", units_count(round(v), text, sizeof text));
        if (s->from == s->to) break;
    }
    svg_text(out, LEFT + PLOT_WIDTH / 2.0, y + 34, SVG_MIDDLE, "", llm_sweep_name(s->what));
}

void llm_sweep_svg(const struct llm_static *base, const struct llm_sweep *s, struct strbuf *out) {
    char title[200];
    double bottom = TOP + PANELS * PANEL + (PANELS - 1) * GAP;
    const struct llm_gpu *gpu = base->device->gpu;
    snprintf(title, sizeof title, "%.100s on %.60s: sweep of %s", base->model->name,
             gpu ? gpu->name : "a custom device", llm_sweep_name(s->what));
    svg_open(out, WIDTH, bottom + 46, "sweep", title);
    svg_style(out, style);
    svg_text(out, LEFT, 20, SVG_START, "title", title);
    for (int i = 0; i < PANELS; i++) draw_panel(out, s, &panels[i], TOP + i * (PANEL + GAP));
    draw_crossover(out, s, "prefill", s->prefill_turn, TOP - 6);
    draw_crossover(out, s, "decode", s->decode_turn, TOP + PANEL + GAP - 6);
    draw_crossover(out, s, "decode weights", s->weights_turn, TOP + 2 * (PANEL + GAP) - 6);
    draw_x_axis(out, s, bottom);
    svg_close(out);
}
