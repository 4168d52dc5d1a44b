#include "analyze/counter_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

#define MAX_UNKNOWNS 1024 /* classes beyond, the least exposed, share one unknown; the matrix stays at 8 MB */
#define ROBUST_ROUNDS 3
#define HUBER 2.0        /* residuals beyond so many deviations count less */
#define EXACT 2e-3       /* of the largest rate: a residual below is no outlier */
#define RIDGE 1e-4       /* of a sample's worth: keeps classes apart that nearly always run together */
#define MIN_EXPOSURE 2.0 /* samples' worth of time below which nothing is said */
#define SWEEPS 400
#define CONVERGED 1e-7

struct term {
    uint32_t unknown;
    float fraction;
};

/* The equations, one row a sample. */
struct rows {
    struct {
        struct term *v;
        size_t n, cap;
    } terms;
    struct {
        size_t *v;
        size_t n, cap;
    } first; /* of the row's terms; one more at the end */
    struct {
        size_t *v;
        size_t n, cap;
    } sample; /* of the input */
};

/* ---- overlaps */

struct active {
    uint32_t class;
    uint64_t end_ns;
};

struct sweep {
    const struct counter_fit_input *in;
    size_t next; /* kernel not yet started */
    struct {
        struct active *v;
        size_t n, cap;
    } active;
    double *share;     /* by class, of the current sample, ns; idle last */
    uint32_t *touched; /* classes with a share */
    size_t ntouched;
};

static void add_share(struct sweep *w, uint32_t class, double ns) {
    if (w->share[class] == 0) w->touched[w->ntouched++] = class;
    w->share[class] += ns;
}

static void start_kernels(struct sweep *w, uint64_t now) {
    const struct counter_fit_input *in = w->in;
    for (; w->next < in->nkernels && in->start_ns[w->next] <= now; w->next++)
        if (in->end_ns[w->next] > now)
            vec_push(&w->active, ((struct active){ in->class_of[w->next], in->end_ns[w->next] }));
}

static void end_kernels(struct sweep *w, uint64_t now) {
    for (size_t i = 0; i < w->active.n;)
        if (w->active.v[i].end_ns <= now)
            w->active.v[i] = w->active.v[--w->active.n];
        else
            i++;
}

/* The next moment at which the set of running kernels changes, at most `limit`. */
static uint64_t next_change(const struct sweep *w, uint64_t limit) {
    if (w->next < w->in->nkernels) limit = MIN(limit, w->in->start_ns[w->next]);
    for (size_t i = 0; i < w->active.n; i++) limit = MIN(limit, w->active.v[i].end_ns);
    return limit;
}

/* Splits [from, to) between the kernels that run and idle. */
static void share_out(struct sweep *w, uint64_t from, uint64_t to) {
    for (uint64_t now = from; now < to;) {
        end_kernels(w, now);
        start_kernels(w, now);
        uint64_t until = next_change(w, to);
        double ns = (double)(until - now);
        if (w->active.n == 0) add_share(w, w->in->nclasses, ns);
        for (size_t i = 0; i < w->active.n; i++) add_share(w, w->active.v[i].class, ns / (double)w->active.n);
        now = until;
    }
}

static void keep_row(struct sweep *w, struct rows *rows, size_t sample, double length_ns) {
    vec_push(&rows->sample, sample);
    for (size_t i = 0; i < w->ntouched; i++) {
        uint32_t c = w->touched[i];
        vec_push(&rows->terms, ((struct term){ c, (float)(w->share[c] / length_ns) }));
        w->share[c] = 0;
    }
    w->ntouched = 0;
    vec_push(&rows->first, rows->terms.n);
}

static void make_rows(const struct counter_fit_input *in, struct rows *rows, struct counter_fit *out) {
    struct sweep w = { .in = in };
    uint64_t last_end = 0;
    w.share = xcalloc((size_t)in->nclasses + 1, sizeof *w.share);
    w.touched = xcalloc((size_t)in->nclasses + 1, sizeof *w.touched);
    for (size_t i = 0; i < in->nkernels; i++) last_end = MAX(last_end, in->end_ns[i]);
    vec_push(&rows->first, 0);
    for (size_t i = 0; i < in->nsamples; i++) {
        uint64_t from = in->sample_start_ns[i], to = in->sample_end_ns[i];
        if (in->nkernels == 0 || to <= in->start_ns[0] || from >= last_end || to <= from) {
            out->unused++;
            continue;
        }
        share_out(&w, from, to);
        keep_row(&w, rows, i, (double)(to - from));
        out->used++;
    }
    free(w.share);
    free(w.touched);
    free(w.active.v);
}

/* ---- classes to unknowns */

struct ranked {
    double exposure;
    uint32_t class;
};

static int by_exposure(const void *a, const void *b) {
    double x = ((const struct ranked *)a)->exposure, y = ((const struct ranked *)b)->exposure;
    return (x < y) - (x > y);
}

/* unknown_of[class]; idle and the most exposed classes have their own, the rest share the last. Returns how many. */
static uint32_t choose_unknowns(const struct counter_fit *f, uint32_t *unknown_of) {
    uint32_t n = f->nclasses + 1, used = 0;
    struct ranked *order = xmalloc(n * sizeof *order);
    for (uint32_t c = 0; c < n; c++)
        order[c] = (struct ranked){ c == f->nclasses ? INFINITY : f->exposure[c], c };
    qsort(order, n, sizeof *order, by_exposure);
    for (uint32_t i = 0; i < n; i++) {
        if (order[i].exposure <= 0) {
            unknown_of[order[i].class] = UINT32_MAX;
            continue;
        }
        unknown_of[order[i].class] = MIN(used, MAX_UNKNOWNS - 1);
        used += used < MAX_UNKNOWNS;
    }
    free(order);
    return used;
}

static void measure_exposure(const struct rows *rows, struct counter_fit *f) {
    for (size_t i = 0; i < rows->terms.n; i++)
        f->exposure[rows->terms.v[i].unknown] += rows->terms.v[i].fraction;
}

static void rename_terms(struct rows *rows, const uint32_t *unknown_of) {
    for (size_t i = 0; i < rows->terms.n; i++)
        rows->terms.v[i].unknown = unknown_of[rows->terms.v[i].unknown];
}

/* ---- the solver: normal equations, then one rate at a time, never below zero */

struct system {
    uint32_t n;
    double *g, *b, *x; /* [n][n], [n], [n] */
};

static void accumulate(const struct rows *rows, const struct counter_fit_input *in, size_t metric,
                       const float *weight, struct system *s) {
    memset(s->g, 0, (size_t)s->n * s->n * sizeof *s->g);
    memset(s->b, 0, s->n * sizeof *s->b);
    for (size_t r = 0; r < rows->sample.n; r++) {
        double y = in->values[rows->sample.v[r] * in->nmetrics + metric], w = weight[r];
        if (isnan(y) || w == 0) continue;
        const struct term *t = rows->terms.v + rows->first.v[r], *end = rows->terms.v + rows->first.v[r + 1];
        for (const struct term *a = t; a < end; a++) {
            s->b[a->unknown] += w * a->fraction * y;
            for (const struct term *c = t; c < end; c++)
                s->g[(size_t)a->unknown * s->n + c->unknown] += w * a->fraction * (double)c->fraction;
        }
    }
    for (uint32_t i = 0; i < s->n; i++) s->g[(size_t)i * s->n + i] += RIDGE;
}

static void solve(struct system *s) {
    double scale = 0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double moved = 0;
        for (uint32_t i = 0; i < s->n; i++) {
            const double *row = s->g + (size_t)i * s->n;
            double rest = s->b[i];
            for (uint32_t k = 0; k < s->n; k++) rest -= row[k] * s->x[k];
            double x = MAX(0, s->x[i] + rest / row[i]);
            moved = MAX(moved, fabs(x - s->x[i]));
            s->x[i] = x;
            scale = MAX(scale, x);
        }
        if (moved <= CONVERGED * scale) break;
    }
}

static double left_over(const struct rows *rows, const struct counter_fit_input *in, size_t metric, size_t r,
                        const double *x) {
    double y = in->values[rows->sample.v[r] * in->nmetrics + metric];
    for (size_t i = rows->first.v[r]; i < rows->first.v[r + 1]; i++)
        y -= rows->terms.v[i].fraction * x[rows->terms.v[i].unknown];
    return y;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double largest_rate(const double *x, uint32_t n) {
    double most = 1e-30;
    for (uint32_t i = 0; i < n; i++) most = MAX(most, x[i]);
    return most;
}

/* 1.4826 x the median size of the residuals: their deviation, whatever a few outliers do. */
static double reweigh(const struct rows *rows, const struct counter_fit_input *in, size_t metric,
                      const double *x, uint32_t nx, float *weight, double *scratch) {
    size_t n = 0;
    for (size_t r = 0; r < rows->sample.n; r++) {
        double e = fabs(left_over(rows, in, metric, r, x));
        if (!isnan(e)) scratch[n++] = e;
    }
    if (n == 0) return NAN;
    qsort(scratch, n, sizeof *scratch, by_value);
    double sigma = 1.4826 * scratch[n / 2];
    /* Where the fit is all but exact, what is left is rounding: nothing to call an outlier by. */
    double unit = MAX(sigma, EXACT * largest_rate(x, nx));
    for (size_t r = 0; r < rows->sample.n; r++) {
        double e = fabs(left_over(rows, in, metric, r, x));
        weight[r] = isnan(e) ? 0 : (float)(e <= HUBER * unit ? 1 : HUBER * unit / e);
    }
    return sigma;
}

/* Diagonal of the inverse of g, in place, by Gauss-Jordan; g is positive definite thanks to the ridge. */
static void invert_diagonal(double *g, uint32_t n, double *diagonal) {
    for (uint32_t p = 0; p < n; p++) {
        double pivot = 1 / g[(size_t)p * n + p];
        g[(size_t)p * n + p] = 1;
        for (uint32_t k = 0; k < n; k++) g[(size_t)p * n + k] *= pivot;
        for (uint32_t i = 0; i < n; i++) {
            double factor = g[(size_t)i * n + p];
            if (i == p || factor == 0) continue;
            g[(size_t)i * n + p] = 0;
            for (uint32_t k = 0; k < n; k++) g[(size_t)i * n + k] -= factor * g[(size_t)p * n + k];
        }
    }
    for (uint32_t i = 0; i < n; i++) diagonal[i] = g[(size_t)i * n + i];
}

static void fit_metric(const struct rows *rows, const struct counter_fit_input *in, size_t metric,
                       const uint32_t *unknown_of, struct system *s, struct counter_fit *out) {
    size_t nrows = rows->sample.n, stride = (size_t)out->nclasses + 1;
    float *weight = xmalloc((nrows + 1) * sizeof *weight);
    double *scratch = xmalloc((nrows + s->n + 1) * sizeof *scratch), sigma = NAN;
    for (size_t r = 0; r < nrows; r++) weight[r] = 1;
    memset(s->x, 0, s->n * sizeof *s->x);
    for (int round = 0; round <= ROBUST_ROUNDS; round++) {
        accumulate(rows, in, metric, weight, s);
        solve(s);
        if (round < ROBUST_ROUNDS) sigma = reweigh(rows, in, metric, s->x, s->n, weight, scratch);
    }
    invert_diagonal(s->g, s->n, scratch);
    out->residual[metric] = sigma;
    for (size_t c = 0; c < stride; c++) {
        bool known = unknown_of[c] != UINT32_MAX && out->exposure[c] >= MIN_EXPOSURE && !isnan(sigma);
        out->rate[metric * stride + c] = known ? s->x[unknown_of[c]] : NAN;
        out->error[metric * stride + c] = known ? sigma * sqrt(MAX(0, scratch[unknown_of[c]])) : NAN;
    }
    free(weight);
    free(scratch);
}

static void all_unknown(double *v, size_t n) {
    for (size_t i = 0; i < n; i++) v[i] = NAN;
}

void counter_fit_run(const struct counter_fit_input *in, struct counter_fit *out) {
    size_t stride = (size_t)in->nclasses + 1;
    struct rows rows = { 0 };
    *out = (struct counter_fit){ .nclasses = in->nclasses, .nmetrics = in->nmetrics };
    out->exposure = xcalloc(stride, sizeof(double));
    out->rate = xcalloc(stride * MAX(in->nmetrics, 1), sizeof(double));
    out->error = xcalloc(stride * MAX(in->nmetrics, 1), sizeof(double));
    out->residual = xcalloc(MAX(in->nmetrics, 1), sizeof(double));
    all_unknown(out->rate, stride * in->nmetrics);
    all_unknown(out->error, stride * in->nmetrics);
    all_unknown(out->residual, in->nmetrics);
    make_rows(in, &rows, out);
    measure_exposure(&rows, out);
    uint32_t *unknown_of = xmalloc(stride * sizeof *unknown_of);
    struct system s = { .n = choose_unknowns(out, unknown_of) };
    rename_terms(&rows, unknown_of);
    s.g = xmalloc(MAX((size_t)s.n * s.n, 1) * sizeof *s.g);
    s.b = xmalloc(MAX(s.n, 1) * sizeof *s.b);
    s.x = xmalloc(MAX(s.n, 1) * sizeof *s.x);
    for (size_t m = 0; m < in->nmetrics && rows.sample.n; m++) fit_metric(&rows, in, m, unknown_of, &s, out);
    free(s.g);
    free(s.b);
    free(s.x);
    free(unknown_of);
    free(rows.terms.v);
    free(rows.first.v);
    free(rows.sample.v);
}

void counter_fit_free(struct counter_fit *f) {
    free(f->exposure);
    free(f->rate);
    free(f->error);
    free(f->residual);
    *f = (struct counter_fit){ 0 };
}
