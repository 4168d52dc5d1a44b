/* The anatomy of a token: the median decode step, drawn to scale. One row for the kernels before the layers,
 * one per layer, and one for the kernels after them. The colour shows the role. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/svg.h"
#include "base/text.h"
#include "base/util.h"
#include "report/chart_axis.h"

#define ROW 16.0
#define LEFT 70.0
#define TOP 40.0
#define CHAR_PX 6.2 /* width of a character, at most */

/* Row 0 is before the layers, rows 1 to `layers` are the layers, and the last row is after them. */
static size_t row_of(const struct anatomy *a, size_t part, size_t last_layer_part) {
    if (a->parts[part].layer != ANATOMY_NO_LAYER) return a->parts[part].layer + 1;
    return part < last_layer_part ? 0 : a->layers + 1;
}

static size_t last_in_layers(const struct anatomy *a) {
    for (size_t i = a->nparts; i-- > 0;)
        if (a->parts[i].layer != ANATOMY_NO_LAYER) return i;
    return 0;
}

static void legend(const struct anatomy *a, const struct chart_form *form, struct strbuf *out) {
    double x = 0, y = 4;
    for (size_t i = 0; i < a->nroles; i++) {
        int role = 0;
        while (role < ROLE_END && kernel_role_name(role) != a->roles[i].name) role++;
        double width = 22 + 7.0 * (double)strlen(a->roles[i].name);
        if (role == ROLE_END) continue;
        if (x + width > form->width) {
            x = 0;
            y += 15;
        }
        chart_rect(x, y, 10, 10, chart_role_color(role), NULL, out);
        svg_text(out, x + 14, y + 9, SVG_START, "", a->roles[i].name);
        x += width;
    }
}

struct anatomy_rows {
    size_t n, last_layer_part;
    double *begin, *end; /* [n] ns */
    double widest;       /* ns; without row 0 */
};

static void measure_rows(const struct anatomy *a, struct anatomy_rows *rows) {
    *rows = (struct anatomy_rows){ .n = a->layers + 2, .last_layer_part = last_in_layers(a), .widest = 1 };
    rows->begin = xmalloc(rows->n * sizeof *rows->begin);
    rows->end = xcalloc(rows->n, sizeof *rows->end);
    for (size_t r = 0; r < rows->n; r++) rows->begin[r] = NAN;
    for (size_t i = 0; i < a->nparts; i++) {
        size_t r = row_of(a, i, rows->last_layer_part);
        if (isnan(rows->begin[r])) rows->begin[r] = a->parts[i].start_ns;
        rows->end[r] = fmax(rows->end[r], a->parts[i].start_ns + a->parts[i].ns);
        if (r) rows->widest = fmax(rows->widest, rows->end[r] - rows->begin[r]);
    }
}

static void draw_labels(const struct anatomy_rows *rows, const struct chart_form *form, double top,
                        struct strbuf *out) {
    for (size_t r = 0; r < rows->n; r++) {
        char label[32];
        double y = top + ROW * (double)r;
        snprintf(label, sizeof label, "layer %zu", r);
        svg_text(out, LEFT - 6, y + 11, SVG_END, "", r == 0 ? "input" : r == rows->n - 1 ? "head" : label);
        svg_line(out, LEFT, y + 14, form->width, y + 14, "axis");
        if (rows->end[r] - rows->begin[r] > rows->widest) /* row extends beyond the chart */
            svg_text(out, form->width - 4, y + 11, SVG_END, "",
                     text_ms((rows->end[r] - rows->begin[r]) * 1e-6).s);
    }
}

/* Writes "layer 3: MLP, 0.0123 ms, 0.4% of the step, gemv bf16". */
static void part_title(const struct view *v, const struct anatomy_part *p, struct strbuf *out) {
    const struct anatomy *a = v->a->anatomy;
    const char *kernel = NULL;
    if (p->is_kernel && v->a->timeline && v->a->shape_kernel) {
        uint32_t row = v->a->shape_kernel[v->a->timeline->kernels.shape[p->index]];
        if (row != ANALYSIS_NONE) kernel = v->a->kernels[row].short_name;
    }
    if (p->layer != ANATOMY_NO_LAYER) strbuf_addf(out, "layer %u: ", p->layer + 1);
    strbuf_addf(out, "%s, %s, %s of the step", kernel_role_name(p->role), text_ms(p->ns * 1e-6).s,
                text_percent(p->ns / a->span_ns).s);
    if (kernel) strbuf_addf(out, ", %s", kernel);
}

static void draw_part(const struct view *v, const struct anatomy_part *p, double x, double y, double width,
                      bool titled, struct strbuf *out) {
    struct strbuf title = STRBUF_INIT;
    if (titled) part_title(v, p, &title);
    chart_rect(x, y, width, 12, chart_role_color(p->role), titled ? title.buf : NULL, out);
    strbuf_free(&title);
    if (width > CHAR_PX * (double)strlen(kernel_role_name(p->role)) + 8) /* names help without colours */
        svg_text(out, x + 4, y + 10, SVG_START, "on ink", kernel_role_name(p->role));
}

bool chart_anatomy(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    const struct anatomy *a = v->a ? v->a->anatomy : NULL;
    struct anatomy_rows rows;
    if (!a || !a->nparts) return false;
    measure_rows(a, &rows);
    double top = TOP + (form->width < 600 ? 60 : 0), scale = (form->width - LEFT - 70) / rows.widest;
    chart_open(form, top + ROW * (double)rows.n + 42,
               "Anatomy of a token: the median decode step, layer by layer", out);
    legend(a, form, out);
    draw_labels(&rows, form, top, out);
    for (size_t i = 0; i < a->nparts; i++) {
        const struct anatomy_part *p = &a->parts[i];
        size_t r = row_of(a, i, rows.last_layer_part);
        double from = p->start_ns - rows.begin[r], to = fmin(from + p->ns, rows.widest);
        if (from < rows.widest)
            draw_part(v, p, LEFT + from * scale, top + ROW * (double)r + 1, fmax((to - from) * scale, 0.3),
                      form->width >= CHART_WIDE, out);
    }
    const struct chart_box box = { LEFT, LEFT + rows.widest * scale, top, top + ROW * (double)rows.n };
    struct strbuf note = STRBUF_INIT;
    chart_time_axis(&box, rows.widest, out);
    strbuf_addf(&note, "Time since the start of the row. Whole step on the GPU: %s.",
                text_ms(a->span_ns * 1e-6).s);
    svg_text(out, LEFT, box.bottom + 34, SVG_START, "", note.buf);
    strbuf_free(&note);
    svg_close(out);
    free(rows.begin);
    free(rows.end);
    return true;
}
