/* Least squares with answers that are never negative, from the normal equations: x >= 0 that minimises
 * x'Gx/2 - b'x; the last few unknowns may have any sign. G is symmetric and positive definite, [n][n], its
 * upper triangle is read.
 *     struct nnls s;
 *     nnls_init(&s, n);
 *     fill s.g and s.b;
 *     nnls_solve(&s);                  -- s.x; a second call starts from the last solution
 *     nnls_inverse(&s, c);             -- of G among the unknowns that are free, zero elsewhere
 *     nnls_free(&s);
 * Block principal pivoting: which unknowns rest at zero is guessed, solved for and corrected as a whole,
 * so a solution takes a few factorisations (n^3 / 6 multiplications each) however alike the columns are. */
#ifndef ANALYZE_NNLS_H
#define ANALYZE_NNLS_H

#include <stdbool.h>
#include <stdint.h>

struct nnls {
    uint32_t n, signed_from; /* unknowns from here on may be negative */
    double *g, *b, *x;
    bool *free; /* not at zero */
    double *factor, *slope;
    uint32_t *index;
};

void nnls_init(struct nnls *s, uint32_t n); /* none may be negative */
void nnls_solve(struct nnls *s);
void nnls_inverse(struct nnls *s, double *inverse); /* [n][n] */
void nnls_free(struct nnls *s);

#endif
