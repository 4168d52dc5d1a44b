/* Charts of a job of several ranks: heat map, skew over steps, timeline of chosen ranks. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/stats.h"
#include "base/svg.h"
#include "base/text.h"
#include "base/util.h"
#include "ranks/sums.h"
#include "report/chart_axis.h"
#include "report/ranks.h"

#define LEFT 150.0
#define RIGHT 16.0
#define LEVELS 10

/* ---- Heat map: one column per rank */
static const struct {
    const char *name;
    size_t offset;
    const char *css; /* colours of the report: busy, communication, busy wait, idle */
} kinds[] = {
    { "compute", offsetof(struct rank_time, compute_ns), "busy" },
    { "waiting", offsetof(struct rank_time, wait_ns), "r10" }, /* with stripes */
    { "moving", offsetof(struct rank_time, move_ns), "r10" },
    { "idle", offsetof(struct rank_time, idle_ns), "idle" },
};

#define KIND_WAITING 1

static double kind_of(const struct rank_time *t, size_t kind) {
    double v;
    memcpy(&v, (const char *)t + kinds[kind].offset, sizeof v);
    return v;
}

/* Scale of a row. `low` is 80% of the smallest value, so that noise does not look like a difference. */
struct heat_scale {
    double low, high;
};

static double heat_value(const struct rank_job *job, size_t row, size_t stage, size_t kind) {
    const struct rank_cell *c = rank_job_cell(job, row, stage);
    return rank_cell_each(c, kind_of(&c->time, kind));
}

static struct heat_scale scale_of(const struct rank_job *job, size_t stage, size_t kind) {
    struct heat_scale s = { INFINITY, 0 };
    for (size_t r = 0; r < job->nranks; r++) {
        double v = heat_value(job, r, stage, kind);
        if (isnan(v)) continue;
        s.low = fmin(s.low, v);
        s.high = fmax(s.high, v);
    }
    s.low *= 0.8;
    return s;
}

static int level_of(const struct heat_scale *s, double v) {
    if (isnan(v)) return -1;
    return s->high > s->low ? (int)ceil((v - s->low) / (s->high - s->low) * LEVELS) : 0;
}

static void heat_cell(double x, double y, double w, double h, const char *css, bool striped, int level,
                      const char *title, struct strbuf *out) {
    strbuf_addf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"%s\"", x, y, w, h,
                css);
    strbuf_addf(out, " fill-opacity=\"%.2f\">", 0.06 + 0.94 * level / LEVELS);
    strbuf_addf(out, "<title>%s</title></rect>\n", title);
    if (striped) chart_stripes(x, y, w, h, out);
}

/* Writes "rank 3: compute 1.2 ms of a step of 4.5 ms", or the range of several ranks. */
static void heat_title(const struct rank_job *job, size_t stage, size_t kind, size_t first, size_t last,
                       char *title, size_t cap) {
    double low = INFINITY, high = 0;
    for (size_t i = first; i <= last; i++) {
        low = fmin(low, heat_value(job, i, stage, kind));
        high = fmax(high, heat_value(job, i, stage, kind));
    }
    struct text step = text_ms(rank_step_ns(job, stage) * 1e-6);
    if (first == last)
        snprintf(title, cap, "rank %u: %s %s of a step of %s", job->ranks[first].rank, kinds[kind].name,
                 text_ms(high * 1e-6).s, step.s);
    else
        snprintf(title, cap, "ranks %u to %u: %s %s to %s of a step of %s", job->ranks[first].rank,
                 job->ranks[last].rank, kinds[kind].name, text_ms_number(low * 1e-6).s,
                 text_ms(high * 1e-6).s, step.s);
}

/* Up to 128 ranks: one rectangle per rank. More ranks: one rectangle for neighbours with equal levels. */
static void heat_row(const struct rank_report *r, size_t stage, size_t kind, double y, double h,
                     double cell_w, struct strbuf *out) {
    const struct rank_job *job = r->job;
    const bool few = job->nranks <= 128;
    struct heat_scale scale = scale_of(job, stage, kind);
    for (size_t i = 0, next; i < job->nranks; i = next) {
        double ns = heat_value(job, i, stage, kind);
        int level = level_of(&scale, ns);
        char title[192];
        next = i + 1;
        while (!few && next < job->nranks && level_of(&scale, heat_value(job, next, stage, kind)) == level)
            next++;
        if (level < 0) continue;
        heat_title(job, stage, kind, i, next - 1, title, sizeof title);
        heat_cell(LEFT + (double)i * cell_w, y, (double)(next - i) * cell_w - (few ? 1 : 0), h,
                  kinds[kind].css, kind == KIND_WAITING, level, title, out);
    }
}

static bool is_drawn(const struct rank_job *job, size_t stage) {
    return !isnan(rank_step_ns(job, stage)) && !job->stages[stage].outside;
}

bool rank_chart_heat(const struct rank_report *r, const struct chart_form *form, struct strbuf *out) {
    const struct rank_job *job = r->job;
    const double width = form->width;
    const double row_h = 16, gap = 12, top = 18;
    double y = top, height = top + 24, cell_w = (width - LEFT - RIGHT) / (double)MAX(1, job->nranks);
    char text[64];
    for (size_t s = 0; s < job->nstages; s++)
        if (is_drawn(job, s)) height += COUNTOF(kinds) * row_h + gap;
    if (height < top + 30 || !job->nranks) return false;
    chart_open(form, height, "Time per step by rank and stage", out);
    for (size_t s = 0; s < job->nstages; s++) {
        if (!is_drawn(job, s)) continue;
        for (size_t k = 0; k < COUNTOF(kinds); k++, y += row_h) {
            if (k == 0) svg_text(out, 0, y + 12, SVG_START, "ink", job->stages[s].name);
            svg_text(out, LEFT - 8, y + 12, SVG_END, "soft", kinds[k].name);
            heat_row(r, s, k, y, row_h - 2, cell_w, out);
        }
        y += gap;
    }
    snprintf(text, sizeof text, "rank %u", job->ranks[0].rank);
    svg_text(out, LEFT, y + 8, SVG_START, "soft", text);
    snprintf(text, sizeof text, "rank %u", job->ranks[job->nranks - 1].rank);
    svg_text(out, width - RIGHT, y + 8, SVG_END, "soft", text);
    svg_close(out);
    return true;
}

/* ---- Skew over steps */
static const struct rank_steps *longest_steps(const struct rank_job *job) {
    const struct rank_steps *best = NULL;
    for (size_t i = 0; i < job->nsteps; i++) {
        const struct rank_steps *s = &job->steps[i];
        if (s->nrows >= 2 && (!best || s->nrows * s->steps_per_row > best->nrows * best->steps_per_row))
            best = s;
    }
    return best;
}

struct skew_plot {
    const struct rank_steps *steps;
    struct stats *rows; /* [steps->nrows] */
    struct chart_box box;
    double most;
};

static double skew_x(const void *data, size_t i) {
    const struct skew_plot *p = data;
    size_t n = p->steps->nrows;
    return p->box.left + (p->box.right - p->box.left) * (double)MIN(i, n - 1) / (double)(n - 1);
}

static void skew_title(const void *data, size_t first, size_t last, struct strbuf *out) {
    const struct skew_plot *p = data;
    struct stats r = p->rows[first];
    for (size_t i = first; i <= last; i++)
        if (p->rows[i].max > r.max) r = p->rows[i];
    strbuf_addf(out, "step %" PRIu64 ": slowest rank %s, median %s, fastest %s",
                (uint64_t)first * p->steps->steps_per_row, text_ms(r.max * 1e-6).s,
                text_ms(r.median * 1e-6).s, text_ms(r.min * 1e-6).s);
}

static void draw_skew_line(const struct skew_plot *p, size_t which, const char *css, struct strbuf *out) {
    struct svg_path path;
    svg_path_open(&path, out, css);
    for (size_t i = 0; i < p->steps->nrows; i++) {
        const struct stats *r = &p->rows[i];
        double v = which == 0 ? r->min : which == 1 ? r->median : r->max;
        svg_path_to(&path, skew_x(p, i), p->box.bottom - v / p->most * (p->box.bottom - p->box.top));
    }
    svg_path_close(&path);
}

static void draw_skew(const struct skew_plot *p, const char *stage, const struct chart_form *form,
                      struct strbuf *out) {
    char text[128];
    chart_open(form, 196, "Compute time per step: slowest, median and fastest rank", out);
    chart_value_axis(&p->box, p->most * 1e-6, "ms", out);
    snprintf(text, sizeof text, "compute time per step of %.60s", stage);
    svg_text(out, 0, 12, SVG_START, "", text);
    draw_skew_line(p, 0, "line2", out);
    draw_skew_line(p, 1, "line2 dashed", out);
    draw_skew_line(p, 2, "line", out);
    svg_text(out, p->box.left, 178, SVG_START, "", "step 0");
    snprintf(text, sizeof text, "step %" PRIu64, (uint64_t)(p->steps->nrows - 1) * p->steps->steps_per_row);
    svg_text(out, p->box.right, 178, SVG_END, "", text);
    const struct chart_hover hover = {
        .box = p->box, .n = p->steps->nrows, .x = skew_x, .title = skew_title, .data = p
    };
    chart_hover(&hover, form, out);
    svg_close(out);
}

bool rank_chart_skew(const struct rank_report *r, const struct chart_form *form, struct strbuf *out) {
    const struct rank_job *job = r->job;
    struct skew_plot p = { .steps = longest_steps(job), .box = { LEFT, form->width - RIGHT, 26, 156 } };
    if (!p.steps) return false;
    p.rows = xcalloc(p.steps->nrows, sizeof *p.rows);
    for (size_t i = 0; i < p.steps->nrows; i++) {
        p.rows[i] = rank_step_stats(job, p.steps, i);
        if (p.rows[i].max > p.most) p.most = p.rows[i].max;
    }
    if (p.most > 0) draw_skew(&p, job->stages[p.steps->stage].name, form, out);
    free(p.rows);
    return p.most > 0;
}

/* ---- Timeline */
static void draw_span(const struct rank_lane *lane, const struct rank_span *s, double scale, double y,
                      bool titled, struct strbuf *out) {
    char title[192];
    snprintf(title, sizeof title, "rank %u: %s from %s to %s, %s", lane->rank,
             s->communication ? "communication" : "compute", text_ms_number(s->start_ns * 1e-6).s,
             text_ms(s->end_ns * 1e-6).s, text_ms((s->end_ns - s->start_ns) * 1e-6).s);
    svg_rect_titled(out, LEFT + s->start_ns * scale, y + (s->communication ? 20 : 0),
                    fmax(0.5, (s->end_ns - s->start_ns) * scale), 18, s->communication ? "r10" : "busy",
                    titled ? title : NULL);
}

static void draw_lane(const struct rank_lane *lane, const struct rank_lanes *all,
                      const struct chart_form *form, double y, struct strbuf *out) {
    double width = form->width, scale = (width - LEFT - RIGHT) / all->window_ns;
    char text[64];
    snprintf(text, sizeof text, "rank %u", lane->rank);
    svg_text(out, 0, y + 14, SVG_START, "ink", text);
    svg_text(out, 0, y + 34, SVG_START, "soft", lane->role);
    svg_text(out, LEFT - 8, y + 14, SVG_END, "soft", "compute");
    svg_text(out, LEFT - 8, y + 34, SVG_END, "soft", "comm.");
    svg_rect(out, LEFT, y, width - LEFT - RIGHT, 18, "track");
    svg_rect(out, LEFT, y + 20, width - LEFT - RIGHT, 18, "track");
    for (size_t i = 0; i < lane->nspans; i++)
        draw_span(lane, &lane->spans[i], scale, y, form->width >= CHART_WIDE, out);
}

bool rank_chart_lanes(const struct rank_report *r, const struct chart_form *form, struct strbuf *out) {
    const struct rank_lanes *l = r->lanes;
    double height = 30 + 52.0 * (double)(l ? l->n : 0);
    if (!l || !l->n) return false;
    const struct chart_box box = { LEFT, form->width - RIGHT, 6, height - 26 };
    chart_open(form, height, "Kernels of the slowest, the median and the fastest rank on one clock", out);
    for (size_t i = 0; i < l->n; i++) draw_lane(&l->v[i], l, form, 6 + 52.0 * (double)i, out);
    chart_time_axis(&box, l->window_ns, out);
    svg_close(out);
    return true;
}
