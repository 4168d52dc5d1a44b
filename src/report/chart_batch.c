/* The batch over time: a line for the requests per step, and a bar for each step that is not a decode step.
 * The height of a bar is the number of tokens. */
#include <math.h>

#include "base/svg.h"
#include "base/text.h"
#include "base/util.h"
#include "report/charts.h"

#define HEIGHT 150.0
#define LEFT 46.0
#define BOTTOM 22.0
#define TOP 22.0
#define POINTS_MAX 2000 /* more steps: maximum of several */

struct batch_scale {
    double from_ns, to_ns, requests, tokens; /* requests, tokens: maxima */
};

static struct batch_scale scale_of(const struct recognition *r) {
    struct batch_scale s = { (double)r->steps[0].start_ns, 0, 1, 1 };
    for (size_t i = 0; i < r->nsteps; i++) {
        const struct recognised_step *step = &r->steps[i];
        s.to_ns = fmax(s.to_ns, (double)step->end_ns);
        if (isfinite(step->requests)) s.requests = fmax(s.requests, step->requests);
        if (step->kind != STEP_DECODE && isfinite(step->tokens)) s.tokens = fmax(s.tokens, step->tokens);
    }
    return s;
}

static void draw_axis(const struct batch_scale *s, double width, struct strbuf *out) {
    svg_line(out, LEFT, TOP, LEFT, HEIGHT - BOTTOM, "axis");
    svg_line(out, LEFT, HEIGHT - BOTTOM, width, HEIGHT - BOTTOM, "axis");
    svg_text(out, LEFT - 6, TOP + 8, SVG_END, "", text_num(s->requests, 0).s);
    svg_text(out, LEFT - 6, HEIGHT - BOTTOM, SVG_END, "", "0");
    svg_text(out, LEFT, HEIGHT - 6, SVG_START, "", "0");
    svg_text(out, width, HEIGHT - 6, SVG_END, "", text_ms((s->to_ns - s->from_ns) * 1e-6).s);
    struct strbuf legend = STRBUF_INIT;
    strbuf_addf(&legend, "line: requests; bars: prompt tokens, up to %s", text_num(s->tokens, 0).s);
    svg_text(out, LEFT, 13, SVG_START, "", legend.buf);
    strbuf_free(&legend);
}

bool chart_batch(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    const struct recognition *r = v->a ? &v->a->recognition : NULL;
    struct svg_path line;
    if (!r || !r->llm || r->nsteps < 2) return false;
    struct batch_scale s = scale_of(r);
    double room = HEIGHT - TOP - BOTTOM, per_ns = (form->width - LEFT) / fmax(s.to_ns - s.from_ns, 1);
    size_t each = (r->nsteps + POINTS_MAX - 1) / POINTS_MAX;
    chart_open(form, HEIGHT, "Batch over time", out);
    draw_axis(&s, form->width, out);
    for (size_t i = 0; i < r->nsteps; i++) {
        const struct recognised_step *step = &r->steps[i];
        double x = LEFT + ((double)step->start_ns - s.from_ns) * per_ns,
               width = (double)(step->end_ns - step->start_ns) * per_ns,
               height = room * step->tokens / s.tokens;
        if (step->kind == STEP_DECODE || isnan(step->tokens)) continue;
        svg_rect(out, x, HEIGHT - BOTTOM - height, fmax(width, 1), height, "mark");
    }
    svg_path_open(&line, out, "line");
    for (size_t i = 0; i < r->nsteps; i += each) {
        double most = NAN;
        for (size_t k = i; k < MIN(i + each, r->nsteps); k++) most = fmax(most, r->steps[k].requests);
        double y = HEIGHT - BOTTOM - room * most / s.requests;
        size_t last = MIN(i + each, r->nsteps) - 1;
        svg_path_to(&line, LEFT + ((double)r->steps[i].start_ns - s.from_ns) * per_ns, y);
        svg_path_to(&line, LEFT + ((double)r->steps[last].end_ns - s.from_ns) * per_ns, y);
    }
    svg_path_close(&line);
    svg_close(out);
    return true;
}
