/* Non-negative least squares from the normal equations: finds the x >= 0 that minimises x'Gx/2 - b'x. G
 * [n][n] is symmetric and positive definite; only its upper triangle is read.
 *     struct nnls s;
 *     nnls_init(&s, n);
 *     fill s.g and s.b;
 *     nnls_solve(&s);                  -- sets s.x; a second call starts from the last solution
 *     nnls_inverse(&s, c);             -- inverse of G over the free unknowns; 0 elsewhere
 *     nnls_free(&s);
 * Method: block principal pivoting. It guesses the set of unknowns that are zero, solves for the others and
 * corrects the whole set at once. */
#ifndef ANALYZE_NNLS_H
#define ANALYZE_NNLS_H

#include <stdbool.h>
#include <stdint.h>

struct nnls {
    uint32_t n, signed_from; /* unknowns from signed_from on may be negative */
    double *g, *b, *x;
    bool *free; /* false: fixed at zero */
    double *factor, *slope;
    uint32_t *index;
};

void nnls_init(struct nnls *s, uint32_t n); /* signed_from = n: no unknown may be negative */
void nnls_solve(struct nnls *s);
void nnls_inverse(struct nnls *s, double *inverse); /* [n][n] */
void nnls_free(struct nnls *s);

#endif
