/* The batch over time: a line for the requests per step, and a bar for each step that is not a decode step.
 * The height of a bar is the number of tokens. */
#include <math.h>
#include <stdio.h>

#include "base/svg.h"
#include "base/text.h"
#include "base/util.h"
#include "report/chart_axis.h"

#define HEIGHT 190.0
#define LEFT 52.0
#define RIGHT 62.0
#define BOTTOM 26.0
#define TOP 26.0
#define POINTS_MAX 2000 /* more steps: maximum of several */

struct batch_plot {
    const struct recognition *r;
    struct chart_box box;
    double from_ns, to_ns, requests, tokens; /* requests, tokens: maxima */
};

static void find_scale(struct batch_plot *p) {
    const struct recognition *r = p->r;
    p->from_ns = (double)r->steps[0].start_ns;
    p->to_ns = 0;
    p->requests = p->tokens = 1;
    for (size_t i = 0; i < r->nsteps; i++) {
        const struct recognised_step *step = &r->steps[i];
        p->to_ns = fmax(p->to_ns, (double)step->end_ns);
        if (isfinite(step->requests)) p->requests = fmax(p->requests, step->requests);
        if (step->kind != STEP_DECODE && isfinite(step->tokens)) p->tokens = fmax(p->tokens, step->tokens);
    }
}

static double time_x(const struct batch_plot *p, uint64_t ns) {
    return p->box.left +
           ((double)ns - p->from_ns) / fmax(p->to_ns - p->from_ns, 1) * (p->box.right - p->box.left);
}

static double step_x(const void *data, size_t step) {
    const struct batch_plot *p = data;
    return step < p->r->nsteps ? time_x(p, p->r->steps[step].start_ns) : p->box.right;
}

/* Writes "12.3 ms: prefill, 8 requests, 512 tokens", or the ranges of several steps. */
static void step_title(const void *data, size_t first, size_t last, struct strbuf *out) {
    const struct batch_plot *p = data;
    double requests = NAN, tokens = NAN;
    for (size_t i = first; i <= last; i++) {
        requests = fmax(requests, p->r->steps[i].requests); /* fmax ignores NaN */
        tokens = fmax(tokens, p->r->steps[i].tokens);
    }
    strbuf_addf(out, "at %s: ", text_ms(((double)p->r->steps[first].start_ns - p->from_ns) * 1e-6).s);
    if (first == last)
        strbuf_addf(out, "%s, ", step_kind_name(p->r->steps[first].kind));
    else
        strbuf_addf(out, "%zu steps, at most ", last - first + 1);
    strbuf_addf(out, "%s requests, %s tokens", text_num(requests, 0).s, text_num(tokens, 0).s);
}

static void draw_axes(const struct batch_plot *p, struct strbuf *out) {
    const struct chart_box *b = &p->box;
    chart_value_axis(b, p->requests, "", out);
    chart_time_axis(b, p->to_ns - p->from_ns, out);
    svg_text(out, 0, 12, SVG_START, "", "requests per step (line)");
    svg_text(out, b->right + RIGHT, 12, SVG_END, "", "tokens per prompt step (bars)");
    svg_text(out, b->right + 6, b->top + 4, SVG_START, "", text_num(p->tokens, 0).s);
    svg_text(out, b->right + 6, b->bottom + 4, SVG_START, "", "0");
}

static void draw_prompts(const struct batch_plot *p, struct strbuf *out) {
    for (size_t i = 0; i < p->r->nsteps; i++) {
        const struct recognised_step *step = &p->r->steps[i];
        double x = time_x(p, step->start_ns),
               height = (p->box.bottom - p->box.top) * step->tokens / p->tokens;
        if (step->kind == STEP_DECODE || isnan(step->tokens)) continue;
        svg_rect(out, x, p->box.bottom - height, fmax(time_x(p, step->end_ns) - x, 1), height, "mark");
    }
}

static void draw_requests(const struct batch_plot *p, struct strbuf *out) {
    const struct recognition *r = p->r;
    size_t each = (r->nsteps + POINTS_MAX - 1) / POINTS_MAX;
    struct svg_path line;
    svg_path_open(&line, out, "line");
    for (size_t i = 0; i < r->nsteps; i += each) {
        double most = NAN;
        size_t last = MIN(i + each, r->nsteps) - 1;
        for (size_t k = i; k <= last; k++) most = fmax(most, r->steps[k].requests);
        double y = p->box.bottom - (p->box.bottom - p->box.top) * most / p->requests;
        svg_path_to(&line, time_x(p, r->steps[i].start_ns), y);
        svg_path_to(&line, time_x(p, r->steps[last].end_ns), y);
    }
    svg_path_close(&line);
}

bool chart_batch(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    const struct recognition *r = v->a ? &v->a->recognition : NULL;
    if (!r || !r->llm || r->nsteps < 2) return false;
    struct batch_plot p = { .r = r, .box = { LEFT, form->width - RIGHT, TOP, HEIGHT - BOTTOM } };
    find_scale(&p);
    chart_open(form, HEIGHT, "Batch over time", out);
    draw_axes(&p, out);
    draw_prompts(&p, out);
    draw_requests(&p, out);
    const struct chart_hover hover = {
        .box = p.box, .n = r->nsteps, .x = step_x, .title = step_title, .data = &p
    };
    chart_hover(&hover, form, out);
    svg_close(out);
    return true;
}
