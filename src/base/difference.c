#include "base/difference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/stats.h"
#include "base/util.h"

#define LEVEL 0.05
/* Smaller changes are not reported, because even a rebuild of the same source changes times by more. */
#define LEAST 0.002
#define MAX_SPLITS 20000  /* if there are more splits, this many random splits are used instead */
#define RESOLUTION 0.0005 /* on a log scale; a smaller spread between two processes is coincidence */

/* Returns the number of ways to choose k of n, at most `limit`. */
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
    double median, variance_of_mean; /* of logs */
};

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts v. A side of one process has no variance of its own. */
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

struct test {
    const double *logs; /* [nrows][n]: A's processes, then B's; NaN: no value */
    size_t nrows, na, n;
    size_t *order;        /* [n]: the first na are side A */
    double *left, *right; /* [n] each: scratch */
};

/* Returns the difference of the medians in standard errors; 0 if a side is empty. */
static double statistic(const struct test *t, size_t row, double *difference, double *error) {
    const double *x = t->logs + row * t->n;
    size_t nl = 0, nr = 0;
    for (size_t i = 0; i < t->n; i++) {
        double v = x[t->order[i]];
        if (isnan(v)) continue;
        if (i < t->na)
            t->left[nl++] = v;
        else
            t->right[nr++] = v;
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

/* Advances to the next subset of na in lexicographic order; the rest follows in order. Returns false after
 * the last subset. */
static bool next_split(struct test *t) {
    size_t k = t->na, i = k;
    while (i > 0 && t->order[i - 1] == t->n - k + i - 1) i--;
    if (i == 0) return false;
    t->order[i - 1]++;
    for (size_t j = i; j < k; j++) t->order[j] = t->order[j - 1] + 1;
    size_t at = k;
    for (size_t v = 0, j = 0; v < t->n; v++) {
        while (j < k && t->order[j] < v) j++;
        if (j >= k || t->order[j] != v) t->order[at++] = v;
    }
    return true;
}

static void random_split(struct test *t, uint64_t draw) {
    for (size_t i = t->n; i > 1; i--) {
        size_t j = (size_t)(hash_u64(hash_u64(draw + 0x5eed) ^ i) % i), v = t->order[i - 1];
        t->order[i - 1] = t->order[j];
        t->order[j] = v;
    }
}

/* Computes the largest statistic of each split, in descending order. The first split visited is the
 * observed one. */
static size_t all_splits(struct test *t, double *largest) {
    bool exact = choose(t->n, t->na, MAX_SPLITS) <= MAX_SPLITS;
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) t->order[i] = i;
    do {
        largest[n++] = largest_statistic(t);
        if (!exact) random_split(t, n);
    } while (exact ? next_split(t) : n < MAX_SPLITS);
    for (size_t i = 0; i < t->n; i++) t->order[i] = i;
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
        /* The same split in another order may differ by rounding. */
        while (as_large < nsplits && largest[as_large] >= observed * (1 - 1e-9)) as_large++;
        double half = fmax(critical * error, LEAST) * (1 + 1e-9);
        row->p = (double)as_large / (double)nsplits;
        row->low = expm1(difference - half);
        row->high = expm1(difference + half);
        row->believable = expm1(half);
        row->verdict = fabs(difference) > half ? DIFFERENCE_SHOWN : DIFFERENCE_NONE;
    }
}

/* ---- sides that are too small to test, and unstable ones */

static bool is_far_apart(const struct difference_row *r) {
    bool apart = r->a_max < r->b_min || r->b_max < r->a_min;
    return apart && fabs(log1p(r->change)) > log1p(DIFFERENCE_FLOOR);
}

/* Repeats within one process do not show how processes differ. If the repeats vary too, the machine is
 * loaded, and the load can change between two processes by any amount. */
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

static void prepare_row(struct difference_row *r, size_t na, size_t nb, double *logs) {
    struct stats a = stats_of(r->a, na), b = stats_of(r->b, nb);
    r->a_median = a.median;
    r->b_median = b.median;
    r->change = a.n && b.n && a.median > 0 ? b.median / a.median - 1 : NAN;
    r->low = r->high = r->believable = r->p = NAN;
    if (isnan(r->a_min) || isnan(r->a_max)) {
        r->a_min = a.min;
        r->a_max = a.max;
    }
    if (isnan(r->b_min) || isnan(r->b_max)) {
        r->b_min = b.min;
        r->b_max = b.max;
    }
    r->unstable = a.cv > DIFFERENCE_UNSTABLE_CV || b.cv > DIFFERENCE_UNSTABLE_CV;
    bool known = a.n && b.n && a.min > 0 && b.min > 0;
    r->verdict = known ? DIFFERENCE_CANNOT_TELL : DIFFERENCE_UNKNOWN;
    for (size_t i = 0; i < na + nb; i++) {
        double v = i < na ? r->a[i] : r->b[i - na];
        logs[i] = known && isfinite(v) ? log(v) : NAN;
    }
    if (a.n && b.n && a.min == b.max && a.max == b.min) { /* all values are equal, for example 0 */
        r->verdict = DIFFERENCE_NONE;
        r->change = 0;
    }
}

void difference_test(struct difference_row *rows, size_t nrows, size_t na, size_t nb) {
    size_t n = na + nb;
    double *logs = xcalloc(nrows * n + 1, sizeof *logs), *scratch = xcalloc(2 * n + 1, sizeof *scratch);
    struct test t = { .logs = logs, .nrows = nrows, .na = na, .n = n, .left = scratch, .right = scratch + n };
    t.order = xcalloc(n + 1, sizeof *t.order);
    for (size_t r = 0; r < nrows; r++) prepare_row(&rows[r], na, nb, logs + r * n);
    if (difference_can_test(na, nb) && nrows) {
        double *largest = xcalloc(MAX_SPLITS + 1, sizeof *largest);
        size_t nsplits = all_splits(&t, largest);
        fill_tested(&t, rows, largest, nsplits);
        free(largest);
    }
    for (size_t r = 0; r < nrows; r++) {
        if (rows[r].verdict == DIFFERENCE_CANNOT_TELL)
            judge_untested(&rows[r]);
        else if (rows[r].verdict == DIFFERENCE_SHOWN && rows[r].unstable)
            judge_unstable(&rows[r]);
    }
    free(t.order);
    free(scratch);
    free(logs);
}
