#include "analyze/counter_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/counter_rows.h"
#include "analyze/nnls.h"
#include "base/die.h"
#include "base/stats.h"
#include "base/util.h"

#define MAX_UNKNOWNS 512 /* if there are more classes, the least exposed ones share one unknown */
#define MAX_EDGES 256    /* maximum number of heads and tails; the rest count as part of their kernels */
#define EDGE_NS 1000
#define EDGE_EXPOSURE 1.0 /* minimum exposure of an edge, in sample intervals, to get its own unknown */
/* Ridge penalty that pulls a head or tail to the mean of its kernel: a difference of 30 points weighs as much
 * as a residual of 1 point. */
#define EDGE_RIDGE 1e-3
#define ROBUST_ROUNDS 3
/* a value is an outlier if its residual is above this many deviations and above the rates of all classes */
#define DEVIATIONS 8.0
/* added to the diagonal, in samples; makes the system solvable if two classes always run together */
#define RIDGE 1e-6
#define MIN_EXPOSURE 2.0 /* in sample intervals; below this, the rate is unknown */
/* Search for the lag between the clocks of samples and kernels: the time shift with the best fit. */
#define LAG_STEP_NS 1000
#define LAG_STEPS 6       /* in each direction */
#define LAG_WORTH 0.98    /* a lag is used only if it reduces the sum of squares to this fraction */
#define LAG_SAMPLES 20000 /* samples used for the search */
#define LAG_SLACK_NS 50000000u
#define LAG_DOUBT_NS 500 /* uncertainty of the lag, from experiments; the lag differs between kernels */
#define BUSY 0.05        /* deviation() uses samples in which work covers at least this fraction */

/* ---- classes to unknowns */

struct ranked {
    double exposure;
    uint32_t class;
};

static int by_exposure(const void *a, const void *b) {
    double x = ((const struct ranked *)a)->exposure, y = ((const struct ranked *)b)->exposure;
    return (x < y) - (x > y);
}

/* Maps the terms of counter_rows.h to unknowns. Order of the unknowns: idle, classes, edges. */
struct naming {
    uint32_t *of;         /* per term; UINT32_MAX: none */
    uint32_t nclasses, n; /* number of unknowns for idle and classes, and of all unknowns */
    double *exposure;     /* [terms]: sum of the absolute fractions over all samples */
};

static struct ranked *rank(const double *exposure, uint32_t from, uint32_t to) {
    struct ranked *order = xmalloc(MAX(to - from, 1) * sizeof *order);
    for (uint32_t c = from; c < to; c++) order[c - from] = (struct ranked){ exposure[c], c };
    if (to > from) qsort(order, to - from, sizeof *order, by_exposure);
    return order;
}

/* Idle and the most exposed classes get their own unknown; the others share the last unknown. Classes without
 * exposure get none. */
static void name_classes(struct naming *names, uint32_t idle) {
    names->of[idle] = names->n++;
    struct ranked *order = rank(names->exposure, 0, idle);
    for (uint32_t i = 0; i < idle && order[i].exposure > 0; i++) {
        names->of[order[i].class] = MIN(names->n, MAX_UNKNOWNS - 1);
        names->n += names->n < MAX_UNKNOWNS;
    }
    names->nclasses = names->n;
    free(order);
}

/* Numbers heads and tails, the most exposed first. Only classes with their own unknown get edges. */
static void name_edges(struct naming *names, uint32_t idle, uint32_t width) {
    struct ranked *order = rank(names->exposure, idle + 1, width);
    uint32_t until = names->n + MAX_EDGES;
    for (uint32_t i = 0; i < width - idle - 1 && order[i].exposure >= EDGE_EXPOSURE && names->n < until;
         i++) {
        uint32_t class = (order[i].class - idle - 1) / 2;
        if (names->of[class] < MAX_UNKNOWNS - 1) names->of[order[i].class] = names->n++;
    }
    free(order);
}

static struct naming name_unknowns(const struct counter_rows *rows, uint32_t nclasses) {
    uint32_t width = (uint32_t)counter_rows_width(nclasses);
    struct naming names = { .of = xmalloc(width * sizeof *names.of),
                            .exposure = xcalloc(width, sizeof *names.exposure) };
    memset(names.of, 0xff, width * sizeof *names.of);
    for (size_t i = 0; i < rows->terms.n; i++)
        names.exposure[rows->terms.v[i].unknown] += fabsf(rows->terms.v[i].fraction);
    name_classes(&names, nclasses);
    name_edges(&names, nclasses, width);
    return names;
}

static void free_naming(struct naming *names) {
    free(names->of);
    free(names->exposure);
}

/* Replaces the indices of terms by their unknowns. Drops terms without an unknown. */
static void rename_terms(struct counter_rows *rows, const struct naming *names) {
    size_t kept = 0, i = 0;
    for (size_t r = 0; r < rows->sample.n; r++) {
        for (; i < rows->first.v[r + 1]; i++) {
            struct counter_term t = rows->terms.v[i];
            if ((t.unknown = names->of[t.unknown]) != UINT32_MAX) rows->terms.v[kept++] = t;
        }
        rows->first.v[r + 1] = kept;
    }
    rows->terms.n = kept;
}

/* ---- normal equations */

struct fit {
    const struct counter_rows *rows, *moved; /* moved: the same rows, computed with a slightly longer lag */
    const struct counter_fit_input *in;
    struct nnls eq;
    /* [n][n] each. plain: sum of a a' over all rows a. spread: the same, weighted by squared residuals.
     * inverse: inverse of eq.g. */
    double *plain, *spread, *inverse;
    float *weight; /* weight of each row, 0..1 */
    double *scratch;
    size_t metric;
};

static double value_of(const struct fit *f, size_t row) {
    return f->in->values[f->rows->sample.v[row] * f->in->nmetrics + f->metric];
}

/* Computes g += w a a' for one row a; upper triangle only. */
static void add_row(const struct fit *f, size_t row, double w, double *g) {
    const struct counter_term *t = f->rows->terms.v + f->rows->first.v[row],
                              *end = f->rows->terms.v + f->rows->first.v[row + 1];
    for (const struct counter_term *a = t; a < end; a++) {
        double wa = w * a->fraction;
        for (const struct counter_term *c = a; c < end; c++) {
            uint32_t low = MIN(a->unknown, c->unknown), high = MAX(a->unknown, c->unknown);
            /* two terms share one unknown: both products are added to the diagonal */
            double twice = low == high && a != c ? 2 : 1;
            g[(size_t)low * f->eq.n + high] += twice * wa * c->fraction;
        }
    }
}

/* Builds the normal equations of a metric. Starts from `plain`, which is the same for all metrics, and
 * corrects it for rows with less weight. */
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
    for (uint32_t i = 0; i < f->eq.n; i++)
        f->eq.g[(size_t)i * f->eq.n + i] += i < f->eq.signed_from ? RIDGE : EDGE_RIDGE;
}

static double expected(const struct fit *f, const struct counter_rows *rows, size_t row) {
    double y = 0;
    for (size_t i = rows->first.v[row]; i < rows->first.v[row + 1]; i++)
        y += rows->terms.v[i].fraction * f->eq.x[rows->terms.v[i].unknown];
    return y;
}

static double left_over(const struct fit *f, size_t row) {
    return value_of(f, row) - expected(f, f->rows, row);
}

/* ---- outliers */

/* Returns the fraction of the sample in which kernels or copies ran. Unknown 0 is idle. */
static double busy_fraction(const struct fit *f, size_t row) {
    double busy = 0;
    for (size_t i = f->rows->first.v[row]; i < f->rows->first.v[row + 1]; i++) {
        uint32_t u = f->rows->terms.v[i].unknown;
        if (u != 0 && u < f->eq.signed_from) busy += f->rows->terms.v[i].fraction;
    }
    return busy;
}

/* Returns the k-th smallest value; reorders v. */
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

/* Returns 1.4826 times the median absolute residual: a standard deviation that is robust against outliers.
 * Only samples with kernels or copies are used, because a long pause fits perfectly and would turn everything
 * else into an outlier. NaN: there is no such sample. */
static double deviation(const struct fit *f) {
    size_t n = 0;
    for (size_t r = 0; r < f->rows->sample.n; r++) {
        double e = fabs(left_over(f, r));
        if (!isnan(e) && busy_fraction(f, r) >= BUSY) f->scratch[n++] = e;
    }
    return n ? STATS_MAD_TO_SIGMA * nth(f->scratch, n, n / 2) : NAN;
}

/* Reduces the weight of values whose residual is above both DEVIATIONS deviations and the highest rate of all
 * classes. Other values keep full weight: the tail of a kernel, with half of the multiprocessors idle, is far
 * from the mean of the kernel but belongs to it. */
static void reweigh(struct fit *f, double sigma) {
    double most = 1e-30;
    for (uint32_t i = 0; i < f->eq.signed_from; i++) most = MAX(most, f->eq.x[i]);
    double limit = MAX(DEVIATIONS * sigma, most);
    for (size_t r = 0; r < f->rows->sample.n; r++) {
        double e = fabs(left_over(f, r));
        f->weight[r] = isnan(e) ? 0 : (float)(e <= limit ? 1 : limit * limit / (e * e));
    }
}

/* ---- Standard errors. Residuals differ between kernels, so the error of a class is computed from the
 * samples that contain it: the diagonal of inverse(G) (sum of w^2 e^2 a a') inverse(G). This covers random
 * errors. A wrong lag changes all samples in the same way, so its effect on the rates is added. */

/* Sets doubt[n] to the change of each unknown if the lag were LAG_DOUBT_NS longer: inverse(G) A'(A_moved - A)
 * x, with weighted rows. */
static void lag_effects(const struct fit *f, double *doubt) {
    uint32_t n = f->eq.n;
    double *slope = xcalloc(n, sizeof *slope);
    for (size_t r = 0, m = 0; r < f->rows->sample.n; r++) {
        while (m < f->moved->sample.n && f->moved->sample.v[m] < f->rows->sample.v[r]) m++;
        if (m == f->moved->sample.n) break;
        if (f->moved->sample.v[m] != f->rows->sample.v[r] || f->weight[r] == 0) continue;
        double change = f->weight[r] * (expected(f, f->moved, m) - expected(f, f->rows, r));
        for (size_t i = f->rows->first.v[r]; i < f->rows->first.v[r + 1]; i++)
            slope[f->rows->terms.v[i].unknown] += change * f->rows->terms.v[i].fraction;
    }
    for (uint32_t i = 0; i < n; i++) {
        doubt[i] = 0;
        for (uint32_t k = 0; k < n; k++) doubt[i] += f->inverse[(size_t)i * n + k] * slope[k];
    }
    free(slope);
}

/* Returns c'Sc; only the upper triangle of S is stored. */
static double quadratic(const double *spread, const double *c, uint32_t n) {
    double sum = 0;
    for (uint32_t j = 0; j < n; j++) {
        if (c[j] == 0) continue;
        const double *row = spread + (size_t)j * n;
        double s = row[j] * c[j] / 2;
        for (uint32_t k = j + 1; k < n; k++) s += row[k] * c[k];
        sum += 2 * c[j] * s;
    }
    return sum;
}

static void errors(struct fit *f, double *variance) {
    uint32_t n = f->eq.n;
    double *doubt = xmalloc(MAX(n, 1) * sizeof *doubt);
    memset(f->spread, 0, (size_t)n * n * sizeof *f->spread);
    for (size_t r = 0; r < f->rows->sample.n; r++) {
        double e = f->weight[r] > 0 ? f->weight[r] * left_over(f, r) : 0;
        if (e != 0) add_row(f, r, e * e, f->spread);
    }
    nnls_inverse(&f->eq, f->inverse);
    lag_effects(f, doubt);
    for (uint32_t i = 0; i < f->eq.signed_from; i++) {
        double chance = quadratic(f->spread, f->inverse + (size_t)i * n, n);
        variance[i] = f->eq.free[i] ? MAX(chance, 0) + doubt[i] * doubt[i] : NAN;
    }
    free(doubt);
}

/* Returns the standard error of a rate. The fit gives no error for a rate that is fixed at zero; sigma /
 * sqrt(exposure) is used instead. */
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

/* Returns the residual sum of squares of an unweighted fit of one metric, with the samples shifted by
 * shift_ns. NaN: the metric has no values. */
static double misfit(const struct counter_fit_input *in, size_t metric, int64_t shift_ns) {
    struct counter_rows rows;
    counter_rows_make(in, shift_ns, 0, &rows);
    struct naming names = name_unknowns(&rows, in->nclasses);
    struct fit f = { .rows = &rows, .in = in, .metric = metric };
    nnls_init(&f.eq, names.n);
    rename_terms(&rows, &names);
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
    free_naming(&names);
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

/* Selects at most LAG_SAMPLES samples around the middle kernel, and the kernels of the same period, with
 * LAG_SLACK_NS more on both sides. */
static struct counter_fit_input middle_of(const struct counter_fit_input *in) {
    struct counter_fit_input part = *in;
    size_t at = first_from(in->sample_start_ns, in->nsamples, in->start_ns[in->nkernels / 2]),
           first = at > LAG_SAMPLES / 2 ? at - LAG_SAMPLES / 2 : 0;
    part.nsamples = MIN(in->nsamples - first, (size_t)LAG_SAMPLES);
    part.sample_start_ns += first;
    part.sample_end_ns += first;
    part.values += first * in->nmetrics;
    if (part.nsamples == 0) return part;
    uint64_t from = part.sample_start_ns[0], last = part.sample_end_ns[part.nsamples - 1],
             until = last < UINT64_MAX - LAG_SLACK_NS ? last + LAG_SLACK_NS : UINT64_MAX;
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
    if (edge || !worth) return 0; /* also for NaN */
    /* minimum of the parabola through the best point and its two neighbours */
    const double *s = sum + (best + LAG_STEPS);
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
    struct counter_rows rows, moved;
    *out = (struct counter_fit){ .nclasses = in->nclasses, .nmetrics = in->nmetrics };
    out->exposure = xcalloc(stride, sizeof(double));
    out->rate = unknowns(stride * in->nmetrics);
    out->error = unknowns(stride * in->nmetrics);
    out->residual = unknowns(in->nmetrics);
    counter_rows_make(in, in->lag_ns, EDGE_NS, &rows);
    out->used = rows.sample.n;
    out->unused = in->nsamples - rows.sample.n;
    counter_rows_make(in, in->lag_ns + LAG_DOUBT_NS, EDGE_NS, &moved);
    struct naming names = name_unknowns(&rows, in->nclasses);
    memcpy(out->exposure, names.exposure, stride * sizeof *out->exposure);
    struct fit f = { .rows = &rows, .moved = &moved, .in = in };
    nnls_init(&f.eq, names.n);
    f.eq.signed_from = names.nclasses;
    rename_terms(&rows, &names);
    rename_terms(&moved, &names);
    if (rows.sample.n) fit_all(&f, names.of, out);
    nnls_free(&f.eq);
    free_naming(&names);
    counter_rows_free(&rows);
    counter_rows_free(&moved);
}

void counter_fit_free(struct counter_fit *f) {
    free(f->exposure);
    free(f->rate);
    free(f->error);
    free(f->residual);
    *f = (struct counter_fit){ 0 };
}
