#include "base/difference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/stats.h"
#include "base/util.h"

#define LEVEL 0.05
/* Smaller changes are not reported. Rebuilding the same source changes times by more. */
#define LEAST 0.002
#define MAX_SPLITS 20000 /* exact test up to here, else random */
/* Lower limit of the standard error of log(value). A smaller one is due to chance. */
#define RESOLUTION 0.0005
#define BLOCK_LEAST 4 /* processes in the smallest block */

/* n choose k. Stops at the first intermediate result above `limit`. */
static double choose(size_t n, size_t k, double limit) {
    double c = 1;
    for (size_t i = 1; i <= k && c <= limit; i++) c = c * (double)(n - k + i) / (double)i;
    return c;
}

bool difference_can_test(size_t na, size_t nb) {
    if (na < 1 || nb < 1 || na + nb < 4) return false;
    /* With sides of equal size, the mirrored split is equally extreme. */
    double splits = choose(na + nb, na, 1e9), equal = na == nb ? 2 : 1;
    return equal / splits <= LEVEL;
}

/* ---- one row */

struct side {
    double median, variance_of_mean; /* of log(value) */
};

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts v. With one value, the variance is NaN. */
static struct side summarize(double *v, size_t n) {
    double mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++) mean += v[i] / (double)n;
    for (size_t i = 0; i < n; i++) squares += (v[i] - mean) * (v[i] - mean);
    qsort(v, n, sizeof *v, ascending);
    return (struct side){ stats_percentile(v, n, 0.5), n < 2 ? NAN : squares / (double)(n - 1) / (double)n };
}

static double standard_error(const struct side *a, const struct side *b) {
    double both = 0;
    if (!isnan(a->variance_of_mean)) both += a->variance_of_mean;
    if (!isnan(b->variance_of_mean)) both += b->variance_of_mean;
    return sqrt(both + RESOLUTION * RESOLUTION);
}

/* ---- all rows */

/* The values of all processes in the order of their blocks, and the current split into sides. */
struct test {
    double *logs; /* [nrows][n]; NaN: no value */
    size_t nrows, n;
    size_t *ends; /* [nblocks]: end of each block */
    size_t nblocks;
    /* [n]: true: side B. In every split, each block has the observed number of true values. */
    bool *is_b;
    double *left, *right; /* [n] each: scratch */
    const struct stop *stop;
};

/* Difference of the medians in standard errors. 0: a side is empty, or there are fewer than 3 values. */
static double statistic(const struct test *t, size_t row, double *difference, double *error) {
    const double *x = t->logs + row * t->n;
    size_t nl = 0, nr = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (isnan(x[i])) continue;
        if (t->is_b[i])
            t->right[nr++] = x[i];
        else
            t->left[nl++] = x[i];
    }
    *difference = *error = NAN;
    if (!nl || !nr || nl + nr < 3) return 0;
    struct side a = summarize(t->left, nl), b = summarize(t->right, nr);
    *difference = b.median - a.median;
    *error = standard_error(&a, &b);
    return fabs(*difference) / *error;
}

static double largest_statistic(const struct test *t) {
    double most = 0, difference, error;
    for (size_t row = 0; row < t->nrows; row++) most = fmax(most, statistic(t, row, &difference, &error));
    return most;
}

/* Advances v[0..n), n > 0, to the next arrangement in lexicographic order. After the last arrangement, sets
 * the first one (all true values at the end) and returns false. */
static bool next_arrangement(bool *v, size_t n) {
    size_t at = n, rest = 0; /* true values from `at` on */
    while (at > 1 && (!v[at - 1] || v[at - 2])) rest += v[--at];
    bool more = at > 1;
    if (more)
        v[at - 2] = true;
    else
        rest += v[0];
    for (size_t i = at - 1; i < n; i++) v[i] = i >= n - rest;
    return more;
}

static bool next_split(const struct test *t) {
    for (size_t b = 0, from = 0; b < t->nblocks; from = t->ends[b++])
        if (next_arrangement(t->is_b + from, t->ends[b] - from)) return true;
    return false;
}

static void random_split(const struct test *t, uint64_t draw) {
    for (size_t b = 0, from = 0; b < t->nblocks; from = t->ends[b++])
        for (size_t i = t->ends[b]; i > from + 1; i--) {
            size_t j = from + (size_t)(hash_u64(hash_u64(draw + 0x5eed) ^ i) % (i - from));
            bool v = t->is_b[i - 1];
            t->is_b[i - 1] = t->is_b[j];
            t->is_b[j] = v;
        }
}

/* Stops when the result is above `limit`. */
static double count_splits(const struct test *t, double limit) {
    double splits = 1;
    for (size_t b = 0, from = 0; b < t->nblocks && splits <= limit; from = t->ends[b++]) {
        size_t right = 0;
        for (size_t i = from; i < t->ends[b]; i++) right += t->is_b[i];
        splits *= choose(t->ends[b] - from, right, limit);
    }
    return splits;
}

/* Computes the largest statistic over the rows for each split, in descending order. Returns the number of
 * splits. If there are more than MAX_SPLITS, uses the observed split and random ones. */
static size_t all_splits(struct test *t, double *largest) {
    bool exact = count_splits(t, MAX_SPLITS) <= MAX_SPLITS;
    bool *observed = xmalloc(t->n * sizeof *observed);
    size_t n = 0;
    memcpy(observed, t->is_b, t->n * sizeof *observed);
    if (exact)
        while (next_split(t)) continue;
    do {
        largest[n++] = largest_statistic(t);
        if (!exact) random_split(t, n);
    } while ((exact ? next_split(t) : n < MAX_SPLITS) && !stop_now(t->stop));
    memcpy(t->is_b, observed, t->n * sizeof *observed);
    free(observed);
    for (size_t i = 0; i < n; i++) largest[i] = -largest[i];
    qsort(largest, n, sizeof *largest, ascending);
    for (size_t i = 0; i < n; i++) largest[i] = -largest[i];
    return n;
}

static void fill_tested(struct test *t, struct difference_row *rows, const double *largest, size_t nsplits) {
    size_t allowed = (size_t)(LEVEL * (double)nsplits + 1e-9);
    double critical = largest[MIN(allowed, nsplits - 1)];
    for (size_t r = 0; r < t->nrows; r++) {
        struct difference_row *row = &rows[r];
        double difference, error, observed = statistic(t, r, &difference, &error);
        size_t as_large = 0;
        if (row->verdict == DIFFERENCE_UNKNOWN || isnan(difference)) continue;
        /* rounding depends on the order */
        while (as_large < nsplits && largest[as_large] >= observed * (1 - 1e-9)) as_large++;
        double half = fmax(critical * error, LEAST) * (1 + 1e-9);
        row->p = (double)as_large / (double)nsplits;
        row->low = expm1(difference - half);
        row->high = expm1(difference + half);
        row->believable = expm1(half);
        row->verdict = fabs(difference) > half ? DIFFERENCE_SHOWN : DIFFERENCE_NONE;
    }
}

/* ---- rows that cannot be tested */

static bool is_far_apart(const struct difference_row *r) {
    bool apart = r->a_max < r->b_min || r->b_max < r->a_min;
    return apart && fabs(log1p(r->change)) > log1p(DIFFERENCE_FLOOR);
}

/* For rows with too few processes for a test: shows only large differences, and only if the repeats of both
 * sides are stable. Unstable repeats mean that the machine is loaded, and the load may change between
 * processes. */
static void judge_untested(struct difference_row *r) {
    bool steady = r->a_cv <= DIFFERENCE_UNSTABLE_CV && r->b_cv <= DIFFERENCE_UNSTABLE_CV && !r->unstable;
    r->unstable |= r->a_cv > DIFFERENCE_UNSTABLE_CV || r->b_cv > DIFFERENCE_UNSTABLE_CV;
    r->verdict = steady && is_far_apart(r) ? DIFFERENCE_SHOWN : DIFFERENCE_CANNOT_TELL;
    r->believable = steady ? DIFFERENCE_FLOOR : NAN;
}

static void judge_unstable(struct difference_row *r) {
    if (!is_far_apart(r)) r->verdict = DIFFERENCE_CANNOT_TELL;
    r->believable = fmax(DIFFERENCE_FLOOR, r->believable);
}

static void set_medians(struct difference_row *r, const struct stats *a, const struct stats *b) {
    r->a_median = a->median;
    r->b_median = b->median;
    r->change = a->n && b->n && a->median > 0 ? b->median / a->median - 1 : NAN;
    r->unstable = a->cv > DIFFERENCE_UNSTABLE_CV || b->cv > DIFFERENCE_UNSTABLE_CV;
}

static void prepare_row(struct difference_row *r, size_t na, size_t nb) {
    struct stats a = stats_of(r->a, na), b = stats_of(r->b, nb);
    set_medians(r, &a, &b);
    r->low = r->high = r->believable = r->p = NAN;
    if (isnan(r->a_min) || isnan(r->a_max)) {
        r->a_min = a.min;
        r->a_max = a.max;
    }
    if (isnan(r->b_min) || isnan(r->b_max)) {
        r->b_min = b.min;
        r->b_max = b.max;
    }
    bool known = a.n && b.n && a.min > 0 && b.min > 0;
    r->verdict = known ? DIFFERENCE_CANNOT_TELL : DIFFERENCE_UNKNOWN;
    if (a.n && b.n && a.min == b.max && a.max == b.min) { /* all equal, for example 0 */
        r->verdict = DIFFERENCE_NONE;
        r->change = 0;
    }
}

/* ---- blocks */

/* Sets the sides and blocks of `t`. Returns the processes in the order of their blocks; caller frees. */
static size_t *order_by_block(struct test *t, size_t na, const uint32_t *block) {
    size_t *order = xcalloc(t->n + 1, sizeof *order), n = 0;
    for (uint32_t b = 0; n < t->n; b++) {
        for (size_t i = 0; i < t->n; i++) {
            if (block && block[i] != b) continue;
            t->is_b[n] = i >= na;
            order[n++] = i;
        }
        t->ends[t->nblocks++] = n;
    }
    return order;
}

static void fill_logs(struct test *t, const struct difference_row *rows, const size_t *order, size_t na) {
    for (size_t r = 0; r < t->nrows; r++)
        for (size_t i = 0; i < t->n; i++) {
            double v = order[i] < na ? rows[r].a[order[i]] : rows[r].b[order[i] - na];
            bool known = rows[r].verdict != DIFFERENCE_UNKNOWN && isfinite(v) && v > 0;
            t->logs[r * t->n + i] = known ? log(v) : NAN;
        }
}

/* NaN: the sides have different numbers of values, or none */
static double balanced_mean(const struct test *t, const double *x, size_t from, size_t to) {
    size_t n[2] = { 0, 0 };
    double sum = 0;
    for (size_t i = from; i < to; i++) {
        if (isnan(x[i])) continue;
        n[t->is_b[i]]++;
        sum += x[i];
    }
    return n[0] && n[0] == n[1] ? sum / (double)(n[0] + n[1]) : NAN;
}

/* Subtracts the drift of each block, and recomputes the medians. Does nothing if the sides have different
 * numbers of values in a block, because the mean of the block then depends on the sides. */
static void remove_drift(const struct test *t, struct difference_row *row, double *x) {
    double all = balanced_mean(t, x, 0, t->n);
    for (size_t b = 0, from = 0; b < t->nblocks; from = t->ends[b++])
        if (isnan(balanced_mean(t, x, from, t->ends[b]))) return;
    size_t na = 0, nb = 0;
    for (size_t b = 0, from = 0; b < t->nblocks; from = t->ends[b++]) {
        double drift = balanced_mean(t, x, from, t->ends[b]) - all;
        for (size_t i = from; i < t->ends[b]; i++) {
            if (isnan(x[i])) continue;
            x[i] -= drift;
            if (t->is_b[i])
                t->right[nb++] = exp(x[i]);
            else
                t->left[na++] = exp(x[i]);
        }
    }
    struct stats a = stats_of(t->left, na), b = stats_of(t->right, nb);
    set_medians(row, &a, &b);
}

static void test_rows(struct test *t, struct difference_row *rows) {
    double *largest = xcalloc(MAX_SPLITS + 1, sizeof *largest);
    if (t->nblocks > 1)
        for (size_t r = 0; r < t->nrows; r++) remove_drift(t, &rows[r], t->logs + r * t->n);
    fill_tested(t, rows, largest, all_splits(t, largest));
    free(largest);
}

bool difference_test(struct difference_row *rows, size_t nrows, size_t na, size_t nb, const uint32_t *block,
                     const struct stop *stop) {
    size_t n = na + nb;
    double *scratch = xcalloc(2 * n + 1, sizeof *scratch);
    struct test t = { .nrows = nrows, .n = n, .left = scratch, .right = scratch + n, .stop = stop };
    t.logs = xcalloc(nrows * n + 1, sizeof *t.logs);
    t.ends = xcalloc(n + 1, sizeof *t.ends);
    t.is_b = xcalloc(n + 1, sizeof *t.is_b);
    for (size_t r = 0; r < nrows; r++) prepare_row(&rows[r], na, nb);
    size_t *order = order_by_block(&t, na, block);
    fill_logs(&t, rows, order, na);
    if (difference_can_test(na, nb) && nrows) test_rows(&t, rows);
    for (size_t r = 0; r < nrows; r++) {
        if (rows[r].verdict == DIFFERENCE_CANNOT_TELL)
            judge_untested(&rows[r]);
        else if (rows[r].verdict == DIFFERENCE_SHOWN && rows[r].unstable)
            judge_unstable(&rows[r]);
    }
    free(order);
    free(t.is_b);
    free(t.ends);
    free(t.logs);
    free(scratch);
    return !stop_now(stop);
}

size_t difference_blocks(const bool *is_b, size_t n, uint32_t *block) {
    size_t start = 0, nblocks = 0, excess_b = 0, excess_a = 0;
    double splits = 1;
    for (size_t i = 0; i < n; i++) {
        if (is_b[i])
            excess_a ? excess_a-- : excess_b++;
        else
            excess_b ? excess_b-- : excess_a++;
        if (excess_a || excess_b || i + 1 - start < BLOCK_LEAST || n - i - 1 < BLOCK_LEAST) continue;
        splits *= choose(i + 1 - start, (i + 1 - start) / 2, 1e9);
        for (; start <= i; start++) block[start] = (uint32_t)nblocks;
        nblocks++;
    }
    splits *= choose(n - start, (n - start) / 2, 1e9);
    for (; start < n; start++) block[start] = (uint32_t)nblocks;
    nblocks++;
    bool usable = !excess_a && !excess_b && 2 / splits <= LEVEL;
    if (!usable) memset(block, 0, n * sizeof *block);
    return usable ? nblocks : 1;
}
