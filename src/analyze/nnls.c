#include "analyze/nnls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"

#define FULL_EXCHANGES 3 /* rounds without progress before only one unknown is exchanged per round */
#define EXCHANGES 200    /* maximum number of rounds; unknowns that are still negative are then set to 0 */
#define SLACK 1e-9       /* relative to the largest entry; smaller violations are rounding errors */

void nnls_init(struct nnls *s, uint32_t n) {
    size_t cells = MAX((size_t)n * n, 1), one = MAX(n, 1);
    *s = (struct nnls){ .n = n, .signed_from = n };
    s->g = xcalloc(cells, sizeof *s->g);
    s->factor = xcalloc(cells, sizeof *s->factor);
    s->b = xcalloc(one, sizeof *s->b);
    s->x = xcalloc(one, sizeof *s->x);
    s->slope = xcalloc(one, sizeof *s->slope);
    s->free = xcalloc(one, sizeof *s->free);
    s->index = xcalloc(one, sizeof *s->index);
    for (uint32_t i = 0; i < n; i++) s->free[i] = true;
}

void nnls_free(struct nnls *s) {
    free(s->g);
    free(s->factor);
    free(s->b);
    free(s->x);
    free(s->slope);
    free(s->free);
    free(s->index);
}

static double entry(const struct nnls *s, uint32_t i, uint32_t k) {
    return i <= k ? s->g[(size_t)i * s->n + k] : s->g[(size_t)k * s->n + i];
}

/* Factorises the part of G for the free unknowns into U'U. Returns the number of free unknowns. */
static uint32_t factorise(struct nnls *s) {
    uint32_t m = 0;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->free[i]) s->index[m++] = i;
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t k = i; k < m; k++) s->factor[(size_t)i * m + k] = entry(s, s->index[i], s->index[k]);
    for (uint32_t p = 0; p < m; p++) {
        double *row = s->factor + (size_t)p * m, scale = 1 / sqrt(MAX(row[p], 1e-300));
        for (uint32_t k = p; k < m; k++) row[k] *= scale;
        for (uint32_t i = p + 1; i < m; i++) {
            double *below = s->factor + (size_t)i * m, f = row[i];
            if (f == 0) continue;
            for (uint32_t k = i; k < m; k++) below[k] -= f * row[k];
        }
    }
    return m;
}

/* Computes v := inverse(U'U) v for m unknowns; entries before `from` are zero. */
static void back_substitute(const double *u, uint32_t m, double *v, uint32_t from) {
    for (uint32_t i = from; i < m; i++) {
        const double *row = u + (size_t)i * m;
        double x = v[i] /= row[i];
        for (uint32_t k = i + 1; k < m; k++) v[k] -= x * row[k];
    }
    for (uint32_t i = m; i-- > 0;) {
        const double *row = u + (size_t)i * m;
        double x = v[i];
        for (uint32_t k = i + 1; k < m; k++) x -= row[k] * v[k];
        v[i] = x / row[i];
    }
}

/* Solves for the free unknowns and sets the others to 0. Sets the slope of the others to their gradient. */
static void solve_free(struct nnls *s) {
    uint32_t m = factorise(s);
    double *v = s->slope; /* used as scratch memory; overwritten with the slopes below */
    for (uint32_t i = 0; i < m; i++) v[i] = s->b[s->index[i]];
    back_substitute(s->factor, m, v, 0);
    memset(s->x, 0, s->n * sizeof *s->x);
    for (uint32_t i = 0; i < m; i++) s->x[s->index[i]] = v[i];
    for (uint32_t i = 0; i < s->n; i++) {
        s->slope[i] = -s->b[i];
        if (s->free[i]) continue;
        for (uint32_t k = 0; k < m; k++) s->slope[i] += entry(s, i, s->index[k]) * s->x[s->index[k]];
    }
}

static double largest(const double *v, uint32_t n) {
    double most = 1e-300;
    for (uint32_t i = 0; i < n; i++) most = MAX(most, fabs(v[i]));
    return most;
}

/* Counts misplaced unknowns: free and negative, or fixed at 0 although a larger value would improve the
 * solution. *last: the highest index of them. If `exchange` is set, free ones become fixed and fixed ones
 * become free. */
static uint32_t misplaced(struct nnls *s, bool exchange, uint32_t *last) {
    double least = -SLACK * largest(s->x, s->n), flat = -SLACK * largest(s->b, s->n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->signed_from; i++) {
        if (s->free[i] ? s->x[i] >= least : s->slope[i] >= flat) continue;
        n++;
        *last = i;
        if (exchange) s->free[i] = !s->free[i];
    }
    return n;
}

void nnls_solve(struct nnls *s) {
    uint32_t fewest = s->n + 1, tries = FULL_EXCHANGES, last = 0;
    for (int round = 0; round < EXCHANGES; round++) {
        solve_free(s);
        uint32_t n = misplaced(s, false, &last);
        if (n == 0) break;
        if (n < fewest) {
            fewest = n;
            tries = FULL_EXCHANGES;
        } else if (tries > 0) {
            tries--;
        }
        if (tries > 0)
            misplaced(s, true, &last);
        else
            s->free[last] = !s->free[last];
    }
    for (uint32_t i = 0; i < s->signed_from; i++) s->x[i] = MAX(0, s->x[i]);
}

void nnls_inverse(struct nnls *s, double *inverse) {
    uint32_t m = factorise(s);
    double *v = xmalloc(MAX(m, 1) * sizeof *v);
    memset(inverse, 0, (size_t)s->n * s->n * sizeof *inverse);
    for (uint32_t i = 0; i < m; i++) {
        memset(v, 0, m * sizeof *v);
        v[i] = 1;
        back_substitute(s->factor, m, v, i);
        for (uint32_t k = 0; k < m; k++) inverse[(size_t)s->index[i] * s->n + s->index[k]] = v[k];
    }
    free(v);
}
