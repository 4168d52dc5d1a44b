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
#define DEVIATIONS 8.0 /* so many deviations off, and by more than any class does: an outlier */
#define RIDGE 1e-6     /* of a sample's worth: a solution exists even for classes that always run together */
#define MIN_EXPOSURE 2.0 /* samples' worth of time below which nothing is said */
/* The two clocks: samples and kernels are laid over each other so that the fit is best. */
#define LAG_STEP_NS 1000
#define LAG_STEPS 6       /* either way */
#define LAG_WORTH 0.98    /* of the sum of squares without: better than that, or no lag */
#define LAG_SAMPLES 20000 /* that are looked at */
#define LAG_SLACK_NS 50000000u
#define BUSY 0.05 /* fraction of a sample with kernels, for it to say how well the fit holds */

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

/* What lies outside of everything that kernels do is no measurement. Less than that must count in full: a kernel's tail,
 * with half of the multiprocessors done, lies far from its mean and is part of it. */
static void reweigh(struct fit *f, double sigma) {
    double most = 1e-30;
    for (uint32_t i = 0; i < f->eq.n; i++) most = MAX(most, f->eq.x[i]);
    double limit = MAX(DEVIATIONS * sigma, most);
    for (size_t r = 0; r < f->rows->sample.n; r++) {
        double e = fabs(left_over(f, r));
        f->weight[r] = isnan(e) ? 0 : (float)(e <= limit ? 1 : limit * limit / (e * e));
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

/* ---- lag */

/* Sum of squares that a plain fit of one metric leaves, were the samples taken shift_ns later than they say. */
static double misfit(const struct counter_fit_input *in, size_t metric, int64_t shift_ns) {
    struct counter_rows rows;
    struct counter_fit exposed = { .nclasses = in->nclasses };
    uint32_t *unknown_of = xmalloc(((size_t)in->nclasses + 1) * sizeof *unknown_of);
    exposed.exposure = xcalloc((size_t)in->nclasses + 1, sizeof(double));
    counter_rows_make(in, shift_ns, &rows);
    measure_exposure(&rows, &exposed);
    struct fit f = { .rows = &rows, .in = in, .metric = metric };
    nnls_init(&f.eq, choose_unknowns(&exposed, unknown_of));
    rename_terms(&rows, unknown_of);
    f.weight = xmalloc((rows.sample.n + 1) * sizeof *f.weight);
    f.plain = xcalloc((size_t)f.eq.n * f.eq.n + 1, sizeof *f.plain);
    double sum = any_known(&f) ? 0 : NAN;
    for (size_t r = 0; r < rows.sample.n; r++) add_row(&f, r, 1, f.plain);
    accumulate(&f);
    nnls_solve(&f.eq);
    for (size_t r = 0; r < rows.sample.n; r++) {
        double e = f.weight[r] > 0 ? left_over(&f, r) : 0;
        sum += e * e;
    }
    nnls_free(&f.eq);
    free(f.weight);
    free(f.plain);
    free(unknown_of);
    free(exposed.exposure);
    counter_rows_free(&rows);
    return sum;
}

static size_t first_from(const uint64_t *sorted, size_t n, uint64_t at) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (sorted[mid] < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The samples around the middle kernel, and the kernels around them. */
static struct counter_fit_input middle_of(const struct counter_fit_input *in) {
    struct counter_fit_input part = *in;
    size_t at = first_from(in->sample_start_ns, in->nsamples, in->start_ns[in->nkernels / 2]),
           first = at > LAG_SAMPLES / 2 ? at - LAG_SAMPLES / 2 : 0;
    part.nsamples = MIN(in->nsamples - first, (size_t)LAG_SAMPLES);
    part.sample_start_ns += first;
    part.sample_end_ns += first;
    part.values += first * in->nmetrics;
    if (part.nsamples == 0) return part;
    uint64_t from = part.sample_start_ns[0], until = part.sample_end_ns[part.nsamples - 1] + LAG_SLACK_NS;
    size_t k = first_from(in->start_ns, in->nkernels, from > LAG_SLACK_NS ? from - LAG_SLACK_NS : 0);
    part.nkernels = first_from(in->start_ns, in->nkernels, until) - k;
    part.start_ns += k;
    part.end_ns += k;
    part.class_of += k;
    return part;
}

int64_t counter_fit_lag(const struct counter_fit_input *in, size_t metric) {
    double sum[2 * LAG_STEPS + 1];
    int best = 0;
    if (in->nkernels == 0 || in->nsamples == 0) return 0;
    struct counter_fit_input part = middle_of(in);
    for (int i = -LAG_STEPS; i <= LAG_STEPS; i++) sum[i + LAG_STEPS] = misfit(&part, metric, i * LAG_STEP_NS);
    for (int i = -LAG_STEPS; i <= LAG_STEPS; i++)
        if (sum[i + LAG_STEPS] < sum[best + LAG_STEPS]) best = i;
    bool edge = abs(best) == LAG_STEPS, worth = sum[best + LAG_STEPS] < LAG_WORTH * sum[LAG_STEPS];
    if (edge || !worth) return 0; /* so with NaN */
    /* the parabola through the three best */
    const double *s = sum + best + LAG_STEPS;
    double curve = s[-1] - 2 * s[0] + s[1], off = curve > 0 ? (s[-1] - s[1]) / (2 * curve) : 0;
    return (int64_t)((best + off) * LAG_STEP_NS);
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
    counter_rows_make(in, in->lag_ns, &rows);
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
