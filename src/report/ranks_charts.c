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
#include "report/ranks.h"

#define LEFT 150.0
#define RIGHT 16.0
#define LEVELS 10

/* ---- Heat map: one column per rank */
static const struct {
    const char *name;
    size_t offset;
    int color;
} kinds[] = {
    { "compute", offsetof(struct rank_time, compute_ns), 0 },
    { "waiting", offsetof(struct rank_time, wait_ns), 9 },
    { "moving", offsetof(struct rank_time, move_ns), 6 },
    { "idle", offsetof(struct rank_time, idle_ns), 12 },
};

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

static void heat_cell(double x, double y, double w, double h, int color, int level, const char *title,
                      struct strbuf *out) {
    strbuf_addf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"r%d\"", x, y, w, h,
                color);
    strbuf_addf(out, " fill-opacity=\"%.2f\">", 0.06 + 0.94 * level / LEVELS);
    if (title) strbuf_addf(out, "<title>%s</title>", title);
    strbuf_addstr(out, "</rect>\n");
}

/* Up to 128 ranks: one rectangle with a tooltip per rank. More ranks: one rectangle without a tooltip for
 * neighbours with equal levels. */
static void heat_row(const struct rank_report *r, size_t stage, size_t kind, double y, double h,
                     double cell_w, struct strbuf *out) {
    const struct rank_job *job = r->job;
    const bool few = job->nranks <= 128;
    struct heat_scale scale = scale_of(job, stage, kind);
    for (size_t i = 0, next; i < job->nranks; i = next) {
        double ns = heat_value(job, i, stage, kind);
        int level = level_of(&scale, ns);
        char title[128];
        next = i + 1;
        while (!few && next < job->nranks && level_of(&scale, heat_value(job, next, stage, kind)) == level)
            next++;
        if (level < 0) continue;
        snprintf(title, sizeof title, "rank %u: %s %s of a step of %s", job->ranks[i].rank, kinds[kind].name,
                 text_ms(ns * 1e-6).s, text_ms(rank_step_ns(job, stage) * 1e-6).s);
        heat_cell(LEFT + (double)i * cell_w, y, (double)(next - i) * cell_w - (few ? 1 : 0), h,
                  kinds[kind].color, level, few ? title : NULL, out);
    }
}

static bool is_drawn(const struct rank_job *job, size_t stage) {
    return !isnan(rank_step_ns(job, stage)) && !job->stages[stage].outside;
}

bool rank_chart_heat(const struct rank_report *r, double width, const char *css, struct strbuf *out) {
    const struct rank_job *job = r->job;
    const double row_h = 16, gap = 12, top = 18;
    double y = top, height = top + 24, cell_w = (width - LEFT - RIGHT) / (double)MAX(1, job->nranks);
    char text[64];
    for (size_t s = 0; s < job->nstages; s++)
        if (is_drawn(job, s)) height += COUNTOF(kinds) * row_h + gap;
    if (height < top + 30 || !job->nranks) return false;
    svg_open(out, width, height, css, "Time per step by rank and stage");
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

static void draw_skew_line(const struct stats *rows, size_t n, size_t which, double width, double most,
                           const char *css, struct strbuf *out) {
    struct svg_path path;
    svg_path_open(&path, out, css);
    for (size_t i = 0; i < n; i++) {
        double v = which == 0 ? rows[i].min : which == 1 ? rows[i].median : rows[i].max;
        svg_path_to(&path, LEFT + (width - LEFT - RIGHT) * (double)i / (double)(n - 1), 150 - v / most * 130);
    }
    svg_path_close(&path);
}

bool rank_chart_skew(const struct rank_report *r, double width, const char *css, struct strbuf *out) {
    const struct rank_job *job = r->job;
    const struct rank_steps *s = longest_steps(job);
    double most = 0;
    char text[128];
    if (!s) return false;
    struct stats *rows = xcalloc(s->nrows, sizeof *rows);
    for (size_t i = 0; i < s->nrows; i++) {
        rows[i] = rank_step_stats(job, s, i);
        if (rows[i].max > most) most = rows[i].max;
    }
    if (most > 0) {
        svg_open(out, width, 186, css, "Compute time per step: slowest, median and fastest rank");
        svg_line(out, LEFT, 150, width - RIGHT, 150, "axis");
        svg_line(out, LEFT, 20, width - RIGHT, 20, "axis");
        svg_text(out, LEFT - 8, 24, SVG_END, "soft", text_ms(most * 1e-6).s);
        svg_text(out, LEFT - 8, 154, SVG_END, "soft", "0 ms");
        svg_text(out, 0, 40, SVG_START, "ink", job->stages[s->stage].name);
        draw_skew_line(rows, s->nrows, 0, width, most, "line2", out);
        draw_skew_line(rows, s->nrows, 1, width, most, "line2 dashed", out);
        draw_skew_line(rows, s->nrows, 2, width, most, "line", out);
        svg_text(out, LEFT, 172, SVG_START, "soft", "first step");
        snprintf(text, sizeof text, "step %" PRIu64, (uint64_t)s->nrows * s->steps_per_row);
        svg_text(out, width - RIGHT, 172, SVG_END, "soft", text);
        svg_close(out);
    }
    free(rows);
    return most > 0;
}

/* ---- Timeline */
static void draw_lane(const struct rank_lane *lane, const struct rank_lanes *all, double width, double y,
                      struct strbuf *out) {
    double scale = (width - LEFT - RIGHT) / all->window_ns;
    char text[64];
    snprintf(text, sizeof text, "rank %u", lane->rank);
    svg_text(out, 0, y + 14, SVG_START, "ink", text);
    svg_text(out, 0, y + 34, SVG_START, "soft", lane->role);
    svg_text(out, LEFT - 8, y + 14, SVG_END, "soft", "compute");
    svg_text(out, LEFT - 8, y + 34, SVG_END, "soft", "comm.");
    svg_rect(out, LEFT, y, width - LEFT - RIGHT, 18, "track");
    svg_rect(out, LEFT, y + 20, width - LEFT - RIGHT, 18, "track");
    for (size_t i = 0; i < lane->nspans; i++) {
        const struct rank_span *s = &lane->spans[i];
        svg_rect(out, LEFT + s->start_ns * scale, y + (s->communication ? 20 : 0),
                 fmax(0.5, (s->end_ns - s->start_ns) * scale), 18, s->communication ? "r9" : "r0");
    }
}

bool rank_chart_lanes(const struct rank_report *r, double width, const char *css, struct strbuf *out) {
    const struct rank_lanes *l = r->lanes;
    double height = 30 + 52.0 * (double)(l ? l->n : 0);
    if (!l || !l->n) return false;
    svg_open(out, width, height, css, "Kernels of the slowest, the median and the fastest rank on one clock");
    for (size_t i = 0; i < l->n; i++) draw_lane(&l->v[i], l, width, 6 + 52.0 * (double)i, out);
    svg_text(out, LEFT, height - 8, SVG_START, "soft", "0 ms");
    svg_text(out, width - RIGHT, height - 8, SVG_END, "soft", text_ms(l->window_ns * 1e-6).s);
    svg_close(out);
    return true;
}
