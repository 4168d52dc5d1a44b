#include "ranks/clock_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/stats.h"
#include "base/util.h"

#define LEAST_POINTS 8 /* minimum number of points of both parts of a division, and for a drift */
#define CLOCK_CLIP 4.0 /* standard deviations; a larger residual counts as this much */
/* in standard deviations; part of the least gain of a division, so that noise is not divided */
#define CLOCK_GAIN 12.0
#define LEAST_NOISE_NS 50.0 /* least standard deviation of the noise: the resolution of GPU timestamps */
#define SEARCH_POINTS 512   /* a longer piece is searched with about this many of its points */
#define SEARCH_PLACES 48    /* places at which a division is tried first */
/* up to this many points, the slope of a piece is the median over all pairs of points */
#define ALL_PAIRS 64
#define STEP_WINDOW 16  /* points on each side of a possible step, at most */
#define STEP_LEAST 3    /* the same at the ends of the recording */
#define SHORT_CLIP 12.0 /* as CLOCK_CLIP, for pieces of fewer than LEAST_POINTS points */
/* least height of a step with STEP_WINDOW points, in standard deviations; divide_piece() finds smaller
 * steps */
#define STEP_SIGMAS 5.0
#define BORDER_POINTS 64 /* move_border() moves a border by at most this many points */
/* a point further than this many standard deviations from its line is an outlier */
#define OUTLIER 6.0
#define MEDIAN_EXTRA 1.2533 /* standard error of a median / standard error of a mean */

struct line {
    double at, offset, slope;
};

static double residual(const struct line *l, const struct clock_point *p) {
    return p->difference_ns - l->offset - l->slope * (p->reference_ns - l->at);
}

/* Returns the standard deviation of the noise, at least LEAST_NOISE_NS, from the distance of each point to
 * the line through its two neighbours. */
static double noise_of(const struct clock_point *p, size_t n, double *work) {
    size_t k = 0;
    for (size_t i = 1; i + 1 < n; i++) {
        double span = p[i + 1].reference_ns - p[i - 1].reference_ns;
        double w = span > 0 ? (p[i].reference_ns - p[i - 1].reference_ns) / span : 0.5;
        double between = (1 - w) * p[i - 1].difference_ns + w * p[i + 1].difference_ns;
        work[k++] = fabs(p[i].difference_ns - between) / sqrt(1 + w * w + (1 - w) * (1 - w));
    }
    double sigma = k ? STATS_MAD_TO_SIGMA * stats_median_sorting(work, k) : 0;
    return fmax(sigma, LEAST_NOISE_NS);
}

/* Tukey's resistant line. */
static struct line resistant_line(const struct clock_point *p, size_t n, double *work) {
    struct line l = { p[0].reference_ns, 0, 0 };
    size_t third = n / 3;
    double t[2], d[2];
    for (int side = 0; third >= 2 && side < 2; side++) {
        const struct clock_point *part = side ? p + n - third : p;
        for (size_t i = 0; i < third; i++) work[i] = part[i].reference_ns;
        t[side] = stats_median_sorting(work, third);
        for (size_t i = 0; i < third; i++) work[i] = part[i].difference_ns;
        d[side] = stats_median_sorting(work, third);
    }
    if (third >= 2 && t[1] > t[0]) l.slope = (d[1] - d[0]) / (t[1] - t[0]);
    for (size_t i = 0; i < n; i++) work[i] = residual(&l, &p[i]);
    l.offset = stats_median_sorting(work, n);
    return l;
}

/* Returns the sum of the absolute residuals in standard deviations, each limited to `clip`. */
static double clipped_cost(const struct line *l, const struct clock_point *p, size_t n, double sigma,
                           double clip) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += fmin(fabs(residual(l, &p[i])) / sigma, clip);
    return sum;
}

static double cost_of(const struct line *l, const struct clock_point *p, size_t n, double sigma) {
    return clipped_cost(l, p, n, sigma, CLOCK_CLIP);
}

static double cost_of_best(const struct clock_point *p, size_t n, double sigma, double *work) {
    struct line l = resistant_line(p, n, work);
    return cost_of(&l, p, n, sigma);
}

/* Returns the index at which two lines reduce the cost most, and that reduction in *gain. 0: too few points,
 * or no division reduces the cost. */
static size_t best_division(const struct clock_point *p, size_t n, double sigma, double *gain, double *work) {
    double whole = cost_of_best(p, n, sigma, work);
    size_t best = 0, low = LEAST_POINTS, high = n - LEAST_POINTS;
    *gain = 0;
    if (n < 2 * LEAST_POINTS) return 0;
    for (size_t step = MAX(1, (high - low) / SEARCH_PLACES);; step = MAX(1, step / 4)) {
        for (size_t at = low; at <= high; at += step) {
            double cost = cost_of_best(p, at, sigma, work) + cost_of_best(p + at, n - at, sigma, work);
            if (whole - cost > *gain) {
                *gain = whole - cost;
                best = at;
            }
        }
        if (step == 1 || !best) return best;
        low = best > LEAST_POINTS + step ? best - step : LEAST_POINTS;
        high = MIN(best + step, n - LEAST_POINTS);
    }
}

/* Moves a division that was found among every `stride`-th point to the exact point. */
static size_t refine_division(const struct clock_point *p, size_t n, size_t at, size_t stride, double sigma,
                              double *work) {
    size_t from = at > stride + LEAST_POINTS ? at - stride : LEAST_POINTS;
    size_t to = MIN(at + stride, n - LEAST_POINTS);
    struct line left = resistant_line(p, from, work), right = resistant_line(p + to, n - to, work);
    double best = INFINITY;
    for (size_t i = from; i <= to; i++) {
        double cost = cost_of(&left, p + from, i - from, sigma) + cost_of(&right, p + i, to - i, sigma);
        if (cost < best) {
            best = cost;
            at = i;
        }
    }
    return at;
}

/* Returns the index at which the piece is divided; 0: it stays one piece. */
static size_t divide(const struct clock_point *p, size_t n, double sigma, struct clock_point *thin,
                     double *work) {
    size_t stride = (n + SEARCH_POINTS - 1) / SEARCH_POINTS, k = 0;
    double gain;
    if (n < 2 * LEAST_POINTS) return 0;
    for (size_t i = 0; i < n; i += stride) thin[k++] = p[i];
    size_t at = best_division(thin, k, sigma, &gain, work);
    if (!at || gain * (double)stride < 3 * log((double)n) + CLOCK_GAIN) return 0;
    return stride > 1 ? refine_division(p, n, at * stride, stride, sigma, work) : at;
}

static double theil_sen_slope(const struct clock_point *p, size_t n) {
    size_t pairs = n <= ALL_PAIRS ? n * (n - 1) / 2 : n / 2, k = 0;
    double *slopes = xmalloc((pairs + 1) * sizeof *slopes);
    for (size_t i = 0; i < n; i++) {
        size_t from = n <= ALL_PAIRS ? i + 1 : i + n / 2, to = n <= ALL_PAIRS ? n : from + 1;
        for (size_t j = from; j < MIN(to, n) && k < pairs; j++) {
            double span = p[j].reference_ns - p[i].reference_ns;
            if (span > 0) slopes[k++] = (p[j].difference_ns - p[i].difference_ns) / span;
        }
    }
    double slope = k ? stats_median_sorting(slopes, k) : 0;
    free(slopes);
    return slope;
}

/* Returns half the width of the 95% interval of the fitted line at the point that is furthest from `at`, and
 * that of its slope in *slope_error. */
static double fit_interval(const struct clock_point *p, size_t n, double at, double sigma,
                           double *slope_error) {
    double furthest = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double from = p[i].reference_ns - at;
        furthest = fmax(furthest, fabs(from));
        squares += from * from;
    }
    double scale = stats_student_t975((double)n - 1) * MEDIAN_EXTRA * sigma;
    double leverage = 1.0 / (double)n + (squares > 0 ? furthest * furthest / squares : 0);
    *slope_error = squares > 0 ? scale / sqrt(squares) : NAN;
    return scale * sqrt(leverage);
}

/* `drift` is used for fewer than LEAST_POINTS points. */
static struct clock_line fit_piece(const struct clock_point *p, size_t n, double drift, double *work) {
    struct clock_line out = { .n = n, .drift = drift, .drift_error = NAN, .error_ns = NAN };
    double slope_error;
    for (size_t i = 0; i < n; i++) work[i] = p[i].reference_ns;
    out.at_ns = stats_median_sorting(work, n);
    if (n >= LEAST_POINTS) out.drift = theil_sen_slope(p, n);
    struct line l = { out.at_ns, 0, out.drift };
    for (size_t i = 0; i < n; i++) work[i] = residual(&l, &p[i]);
    l.offset = out.offset_ns = stats_median_sorting(work, n);
    if (n < 2) return out;
    for (size_t i = 0; i < n; i++) work[i] = fabs(residual(&l, &p[i]));
    double sigma = fmax(STATS_MAD_TO_SIGMA * stats_median_sorting(work, n), LEAST_NOISE_NS);
    out.error_ns = fmax(sigma, fit_interval(p, n, out.at_ns, sigma, &slope_error));
    if (n >= LEAST_POINTS) out.drift_error = slope_error;
    for (size_t i = 0; i < n; i++) out.outliers += fabs(residual(&l, &p[i])) > OUTLIER * sigma;
    return out;
}

/* ---- Steps: jumps of the clock that are much larger than the noise. */

struct piece {
    size_t first, n;
};

/* Returns the median slope of pairs at a short distance. Few of these pairs contain a step. */
static double local_slope(const struct clock_point *p, size_t n, double *work) {
    size_t lag = MAX(1, n < 8 * LEAST_POINTS ? n / 8 : MAX(LEAST_POINTS, n / 32)), k = 0;
    for (size_t i = 0; i + lag < n; i++) {
        double span = p[i + lag].reference_ns - p[i].reference_ns;
        if (span > 0) work[k++] = (p[i + lag].difference_ns - p[i].difference_ns) / span;
    }
    return k ? stats_median_sorting(work, k) : 0;
}

/* Returns the median of the n differences from p on, after subtracting the drift since `at`. */
static double level_of(const struct clock_point *p, size_t n, double at, double slope) {
    double v[STEP_WINDOW];
    for (size_t i = 0; i < n; i++) v[i] = p[i].difference_ns - slope * (p[i].reference_ns - at);
    return stats_median_sorting(v, n);
}

/* Returns the number of points on each side of point i that are compared. */
static size_t window_at(size_t i, size_t n) { return MIN((size_t)STEP_WINDOW, MIN(i, n - i)); }

/* Returns the largest difference of w points from p on, after subtracting the drift. */
static double range_of(const struct clock_point *p, size_t w, double slope) {
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < w; i++) {
        double v = p[i].difference_ns - slope * (p[i].reference_ns - p[0].reference_ns);
        low = fmin(low, v);
        high = fmax(high, v);
    }
    return high - low;
}

/* Returns the height of the step at point i in standard deviations of a jump with STEP_WINDOW points. Few
 * points at the ends of the recording must agree: they may be outliers. */
static double jump_at(const struct clock_point *p, size_t i, size_t w, double slope, double sigma) {
    double at = p[i].reference_ns;
    double jump = fabs(level_of(p + i, w, at, slope) - level_of(p + i - w, w, at, slope));
    if (w < LEAST_POINTS && fmax(range_of(p + i - w, w, slope), range_of(p + i, w, slope)) > jump / 2)
        return 0;
    return jump / sigma * sqrt((double)w / STEP_WINDOW);
}

/* Returns the index of the first point after the step near i. */
static size_t locate_step(const struct clock_point *p, size_t i, size_t w, double slope, double sigma) {
    double at = p[i].reference_ns, best = INFINITY;
    struct line left = { at, level_of(p + i - w, w, at, slope), slope };
    struct line right = { at, level_of(p + i, w, at, slope), slope };
    size_t from = i - w, found = i;
    for (size_t b = from; b <= i + w; b++) {
        double cost = cost_of(&left, p + from, b - from, sigma) + cost_of(&right, p + b, i + w - b, sigma);
        if (cost < best) {
            best = cost;
            found = b;
        }
    }
    return found;
}

/* Divides the points at large steps, at most CLOCK_SEGMENTS_MAX / 2 pieces. Returns the number of pieces. */
static size_t divide_at_steps(const struct clock_point *p, size_t n, double sigma, struct piece *out,
                              double *work) {
    size_t pieces = 0, first = 0;
    double slope = local_slope(p, n, work), highest = 0;
    size_t peak = 0;
    for (size_t i = STEP_LEAST; i + STEP_LEAST <= n && pieces + 1 < CLOCK_SEGMENTS_MAX / 2; i++) {
        double jump = jump_at(p, i, window_at(i, n), slope, sigma);
        if (jump > highest && jump > STEP_SIGMAS) {
            highest = jump;
            peak = i;
        }
        /* The jump is largest at the step. Continue until the largest jump is STEP_WINDOW points behind, or
         * the points end. */
        if (!peak || (i < peak + STEP_WINDOW && i + STEP_LEAST < n)) continue;
        size_t at = locate_step(p, peak, window_at(peak, n), slope, sigma);
        if (at > first) {
            out[pieces++] = (struct piece){ first, at - first };
            first = at;
        }
        highest = 0;
        peak = 0;
    }
    out[pieces++] = (struct piece){ first, n - first };
    return pieces;
}

/* ---- Smaller steps and changes of the drift. */

/* Divides a piece as long as the fit improves enough. Appends to `out`; returns the new number of pieces. */
static size_t divide_piece(const struct clock_point *p, struct piece whole, double sigma, struct piece *out,
                           size_t pieces, struct clock_point *thin, double *work) {
    struct piece open[CLOCK_SEGMENTS_MAX] = { whole };
    size_t nopen = 1;
    while (nopen) {
        struct piece next = open[--nopen];
        bool room = pieces + nopen + 1 < CLOCK_SEGMENTS_MAX / 2 && nopen + 2 < CLOCK_SEGMENTS_MAX;
        size_t at = room ? divide(p + next.first, next.n, sigma, thin, work) : 0;
        if (!at) {
            out[pieces++] = next;
            continue;
        }
        /* the earlier part is on top, so that pieces are finished in order */
        open[nopen++] = (struct piece){ next.first + at, next.n - at };
        open[nopen++] = (struct piece){ next.first, at };
    }
    return pieces;
}

/* Moves the border between two pieces to where their final lines explain the points best. */
static void move_border(const struct clock_point *p, struct clock_line *a, struct clock_line *b,
                        double sigma) {
    struct line left = { a->at_ns, a->offset_ns, a->drift }, right = { b->at_ns, b->offset_ns, b->drift };
    size_t from = b->first - MIN(a->n - 1, BORDER_POINTS), to = b->first + MIN(b->n - 1, BORDER_POINTS);
    double cost = 0, best = 0;
    size_t at = from;
    /* `cost` is the cost of a border after point i, minus the cost of a border at `from` */
    for (size_t i = from; i < to; i++) {
        cost += cost_of(&left, p + i, 1, sigma) - cost_of(&right, p + i, 1, sigma);
        if (cost < best) {
            best = cost;
            at = i + 1;
        }
    }
    b->n = b->first + b->n - at;
    b->first = at;
    a->n = at - a->first;
}

static double cost_of_line(const struct clock_point *p, const struct clock_line *l, double sigma,
                           double clip) {
    struct line line = { l->at_ns, l->offset_ns, l->drift };
    return clipped_cost(&line, p + l->first, l->n, sigma, clip);
}

static struct clock_line fit_at(const struct clock_point *p, size_t first, size_t n, double drift,
                                double *work) {
    struct clock_line l = fit_piece(p + first, n, drift, work);
    l.first = first;
    return l;
}

/* Joins neighbours if one line explains both almost as well. Returns the new number of pieces. */
static size_t join_pieces(const struct clock_point *p, struct clock_line *v, size_t n, double sigma,
                          double *work) {
    size_t kept = 1;
    for (size_t i = 1; i < n; i++) {
        struct clock_line *last = &v[kept - 1];
        double drift = last->n >= v[i].n ? last->drift : v[i].drift;
        struct clock_line both = fit_at(p, last->first, last->n + v[i].n, drift, work);
        double clip = MIN(last->n, v[i].n) < LEAST_POINTS ? SHORT_CLIP : CLOCK_CLIP;
        double loss = cost_of_line(p, &both, sigma, clip) - cost_of_line(p, last, sigma, clip) -
                      cost_of_line(p, &v[i], sigma, clip);
        if (loss < 3 * log((double)both.n) + CLOCK_GAIN)
            *last = both;
        else
            v[kept++] = v[i];
    }
    return kept;
}

static double drift_of_longest(const struct clock_line *v, size_t n) {
    size_t longest = 0;
    for (size_t i = 1; i < n; i++)
        if (v[i].n > v[longest].n) longest = i;
    return v[longest].drift;
}

/* Fits the line of every piece again. */
static void fit_again(const struct clock_point *p, struct clock_line *v, size_t n, double *work) {
    double drift = drift_of_longest(v, n);
    for (size_t i = 0; i < n; i++) v[i] = fit_at(p, v[i].first, v[i].n, drift, work);
}

size_t clock_fit(const struct clock_point *p, size_t n, struct clock_line *out) {
    struct piece steps[CLOCK_SEGMENTS_MAX], pieces[CLOCK_SEGMENTS_MAX];
    size_t count = 0;
    if (!n) return 0;
    double *work = xmalloc(n * sizeof *work);
    struct clock_point *thin = xmalloc((MIN(n, SEARCH_POINTS) + 1) * sizeof *thin);
    double sigma = noise_of(p, n, work);
    size_t nsteps = divide_at_steps(p, n, sigma, steps, work);
    for (size_t i = 0; i < nsteps; i++) count = divide_piece(p, steps[i], sigma, pieces, count, thin, work);
    for (size_t i = 0; i < count; i++) out[i] = fit_at(p, pieces[i].first, pieces[i].n, 0, work);
    fit_again(p, out, count, work);
    count = join_pieces(p, out, count, sigma, work);
    for (size_t i = 0; i + 1 < count; i++) move_border(p, &out[i], &out[i + 1], sigma);
    fit_again(p, out, count, work);
    free(thin);
    free(work);
    return count;
}
