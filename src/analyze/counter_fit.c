#include "analyze/counter_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/counter_rows.h"
#include "analyze/nnls.h"
#include "base/die.h"
#include "base/util.h"

#define MAX_UNKNOWNS 512 /* classes beyond, the least exposed, share one unknown and are not told apart */
#define ROBUST_ROUNDS 3
#define HUBER 2.0  /* residuals beyond so many deviations count less */
#define EXACT 2e-3 /* of the largest rate: a residual below is no outlier */
#define RIDGE 1e-6 /* of a sample's worth: a solution exists even for classes that always run together */
#define MIN_EXPOSURE 2.0 /* samples' worth of time below which nothing is said */
#define BUSY 0.05        /* fraction of a sample with kernels, for it to say how well the fit holds */

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

static void measure_exposure(const struct counter_rows *rows, struct counter_fit *f) {
    for (size_t i = 0; i < rows->terms.n; i++)
        f->exposure[rows->terms.v[i].unknown] += rows->terms.v[i].fraction;
}

static void rename_terms(struct counter_rows *rows, const uint32_t *unknown_of) {
    for (size_t i = 0; i < rows->terms.n; i++)
        rows->terms.v[i].unknown = unknown_of[rows->terms.v[i].unknown];
}

/* ---- normal equations */

struct fit {
    const struct counter_rows *rows;
    const struct counter_fit_input *in;
    struct nnls eq;
    double *plain, *spread,
        *inverse;  /* [n][n]: every row once; squares of what is left over; of the matrix */
    float *weight; /* of rows, 0..1 */
    double *scratch;
    size_t metric;
};

static double value_of(const struct fit *f, size_t row) {
    return f->in->values[f->rows->sample.v[row] * f->in->nmetrics + f->metric];
}

/* g += w a a' for one row a; the upper triangle. */
static void add_row(const struct fit *f, size_t row, double w, double *g) {
    const struct counter_term *t = f->rows->terms.v + f->rows->first.v[row],
                              *end = f->rows->terms.v + f->rows->first.v[row + 1];
    for (const struct counter_term *a = t; a < end; a++) {
        double wa = w * a->fraction;
        for (const struct counter_term *c = a; c < end; c++) {
            uint32_t low = MIN(a->unknown, c->unknown), high = MAX(a->unknown, c->unknown);
            /* two terms of one unknown (the shared one) meet twice */
            double twice = low == high && a != c ? 2 : 1;
            g[(size_t)low * f->eq.n + high] += twice * wa * c->fraction;
        }
    }
}

/* Most rows have weight 1: all of them once for all metrics, then the few that count less are taken back. */
static void accumulate(struct fit *f) {
    size_t cells = (size_t)f->eq.n * f->eq.n;
    memcpy(f->eq.g, f->plain, cells * sizeof *f->plain);
    memset(f->eq.b, 0, f->eq.n * sizeof *f->eq.b);
    for (size_t r = 0; r < f->rows->sample.n; r++) {
        double w = f->weight[r];
        if (w < 1) add_row(f, r, w - 1, f->eq.g);
        if (w == 0) continue;
        double wy = w * value_of(f, r);
        for (size_t i = f->rows->first.v[r]; i < f->rows->first.v[r + 1]; i++)
            f->eq.b[f->rows->terms.v[i].unknown] += wy * f->rows->terms.v[i].fraction;
    }
    for (uint32_t i = 0; i < f->eq.n; i++) f->eq.g[(size_t)i * f->eq.n + i] += RIDGE;
}

static double left_over(const struct fit *f, size_t row) {
    double y = value_of(f, row);
    for (size_t i = f->rows->first.v[row]; i < f->rows->first.v[row + 1]; i++)
        y -= f->rows->terms.v[i].fraction * f->eq.x[f->rows->terms.v[i].unknown];
    return y;
}

/* ---- outliers */

/* Unknown 0 is idle. */
static double busy_fraction(const struct fit *f, size_t row) {
    double busy = 0;
    for (size_t i = f->rows->first.v[row]; i < f->rows->first.v[row + 1]; i++)
        if (f->rows->terms.v[i].unknown != 0) busy += f->rows->terms.v[i].fraction;
    return busy;
}

/* The k-th smallest, by partitioning. */
static double nth(double *v, size_t n, size_t k) {
    size_t low = 0, high = n - 1;
    while (low < high) {
        double pivot = v[low + (high - low) / 2];
        size_t i = low, j = high;
        while (i <= j) {
            while (v[i] < pivot) i++;
            while (v[j] > pivot) j--;
            if (i > j) break;
            double t = v[i];
            v[i++] = v[j];
            v[j] = t;
            if (j == 0) break;
            j--;
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return v[k];
}

/* 1.4826 x the median size of the residuals: their deviation, whatever a few outliers do. Only samples in which
 * kernels ran: a long pause fits perfectly and would make everything else an outlier. */
static double deviation(const struct fit *f) {
    size_t n = 0;
    for (size_t r = 0; r < f->rows->sample.n; r++) {
        double e = fabs(left_over(f, r));
        if (!isnan(e) && busy_fraction(f, r) >= BUSY) f->scratch[n++] = e;
    }
    return n ? 1.4826 * nth(f->scratch, n, n / 2) : NAN;
}

static void reweigh(struct fit *f, double sigma) {
    double most = 1e-30;
    for (uint32_t i = 0; i < f->eq.n; i++) most = MAX(most, f->eq.x[i]);
    /* Where the fit is all but exact, what is left is rounding: nothing to call an outlier by. */
    double limit = HUBER * MAX(sigma, EXACT * most);
    for (size_t r = 0; r < f->rows->sample.n; r++) {
        double e = fabs(left_over(f, r));
        f->weight[r] = isnan(e) ? 0 : (float)(e <= limit ? 1 : limit / e);
    }
}

/* ---- standard errors: what is left over is larger where some kernels run than where others do, so each class is
 * judged by the samples that told of it: inverse(G) (sum of w^2 e^2 a a') inverse(G), whose diagonal is wanted. */

static void errors(struct fit *f, double *variance) {
    uint32_t n = f->eq.n;
    memset(f->spread, 0, (size_t)n * n * sizeof *f->spread);
    for (size_t r = 0; r < f->rows->sample.n; r++) {
        double e = f->weight[r] > 0 ? f->weight[r] * left_over(f, r) : 0;
        if (e != 0) add_row(f, r, e * e, f->spread);
    }
    nnls_inverse(&f->eq, f->inverse);
    for (uint32_t i = 0; i < n; i++) {
        const double *c = f->inverse + (size_t)i * n;
        double sum = 0;
        for (uint32_t j = 0; j < n; j++) {
            if (c[j] == 0) continue;
            const double *row = f->spread + (size_t)j * n;
            double s = row[j] * c[j] / 2;
            for (uint32_t k = j + 1; k < n; k++) s += row[k] * c[k];
            sum += 2 * c[j] * s;
        }
        variance[i] = f->eq.free[i] ? MAX(sum, 0) : NAN;
    }
}

/* At rest at zero the slope says nothing of the error: what one sample says of another, over the exposure. */
static double error_of(double variance, double sigma, double exposure) {
    return isnan(variance) ? sigma / sqrt(MAX(exposure, 1)) : sqrt(variance);
}

static bool any_known(const struct fit *f) {
    bool known = false;
    for (size_t r = 0; r < f->rows->sample.n; r++) {
        f->weight[r] = isnan(value_of(f, r)) ? 0 : 1;
        known |= f->weight[r] > 0;
    }
    return known;
}

static void fit_metric(struct fit *f, const uint32_t *unknown_of, struct counter_fit *out) {
    size_t stride = (size_t)out->nclasses + 1;
    double sigma = NAN;
    if (!any_known(f)) return;
    for (int round = 0; round <= ROBUST_ROUNDS; round++) {
        accumulate(f);
        nnls_solve(&f->eq);
        sigma = deviation(f);
        if (round < ROBUST_ROUNDS) reweigh(f, sigma);
    }
    errors(f, f->scratch);
    out->residual[f->metric] = sigma;
    for (size_t c = 0; c < stride; c++) {
        uint32_t u = unknown_of[c];
        if (u >= MAX_UNKNOWNS - 1 || !(out->exposure[c] >= MIN_EXPOSURE) || isnan(sigma)) continue;
        out->rate[f->metric * stride + c] = f->eq.x[u];
        out->error[f->metric * stride + c] = error_of(f->scratch[u], sigma, out->exposure[c]);
    }
}

static double *unknowns(size_t n) {
    double *v = xmalloc(MAX(n, 1) * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = NAN;
    return v;
}

static void fit_all(struct fit *f, const uint32_t *unknown_of, struct counter_fit *out) {
    size_t cells = MAX((size_t)f->eq.n * f->eq.n, 1), nrows = f->rows->sample.n;
    f->plain = xcalloc(cells, sizeof *f->plain);
    f->spread = xcalloc(cells, sizeof *f->spread);
    f->inverse = xcalloc(cells, sizeof *f->inverse);
    f->weight = xmalloc((nrows + 1) * sizeof *f->weight);
    f->scratch = xmalloc((nrows + f->eq.n + 1) * sizeof *f->scratch);
    for (size_t r = 0; r < nrows; r++) add_row(f, r, 1, f->plain);
    for (f->metric = 0; f->metric < f->in->nmetrics; f->metric++) fit_metric(f, unknown_of, out);
    free(f->plain);
    free(f->spread);
    free(f->inverse);
    free(f->weight);
    free(f->scratch);
}

void counter_fit_run(const struct counter_fit_input *in, struct counter_fit *out) {
    size_t stride = (size_t)in->nclasses + 1;
    struct counter_rows rows;
    *out = (struct counter_fit){ .nclasses = in->nclasses, .nmetrics = in->nmetrics };
    out->exposure = xcalloc(stride, sizeof(double));
    out->rate = unknowns(stride * in->nmetrics);
    out->error = unknowns(stride * in->nmetrics);
    out->residual = unknowns(in->nmetrics);
    counter_rows_make(in, &rows);
    out->used = rows.sample.n;
    out->unused = in->nsamples - rows.sample.n;
    measure_exposure(&rows, out);
    uint32_t *unknown_of = xmalloc(stride * sizeof *unknown_of);
    struct fit f = { .rows = &rows, .in = in };
    nnls_init(&f.eq, choose_unknowns(out, unknown_of));
    rename_terms(&rows, unknown_of);
    if (rows.sample.n) fit_all(&f, unknown_of, out);
    nnls_free(&f.eq);
    free(unknown_of);
    counter_rows_free(&rows);
}

void counter_fit_free(struct counter_fit *f) {
    free(f->exposure);
    free(f->rate);
    free(f->error);
    free(f->residual);
    *f = (struct counter_fit){ 0 };
}
