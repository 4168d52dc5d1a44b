/* Tests whether side B differs from side A. The statistical unit is the process, because repeats within a
 * process are correlated. Each process has one value per row: the median of its repeats.
 *
 * Test: exact permutation of the processes over the two sides (20,000 random permutations if there are more).
 * Statistic of a row: difference of the medians of log(value), divided by its standard error. The critical
 * value is the 95% quantile of the largest statistic over all rows (Westfall and Young), so that a table of
 * equal sides has a false difference in at most 5% of cases.
 *
 * Blocks: if the processes of the sides alternate in time (ABBAABBAAB), processes that ran near each other
 * form a block with equally many processes of both sides. The differences between the means of the blocks
 * (drift of the machine's speed) are removed, and processes are permuted only within their block, so the test
 * stays exact.
 *     struct difference_row row = { .a = a, .b = b, .a_min = NAN, .b_min = NAN, .a_cv = NAN, .b_cv = NAN };
 *     difference_test(&row, 1, 5, 5, NULL, NULL); */
#ifndef BASE_DIFFERENCE_H
#define BASE_DIFFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/stop.h"

#define DIFFERENCE_UNSTABLE_CV 0.05
/* The smallest change that is reported without a test. On a machine with 4 times more runnable threads than
 * cores, two processes of one binary with stable repeats differed by more than this in 0.9% of 220 pairs. */
#define DIFFERENCE_FLOOR 0.10
/* recommended processes per side */
#define DIFFERENCE_PROCESSES 5

enum difference_verdict {
    DIFFERENCE_UNKNOWN, /* a value is missing or not positive */
    DIFFERENCE_NONE,    /* not significant, or all values equal */
    /* Significant; if not tested: above DIFFERENCE_FLOOR and the repeats do not overlap. */
    DIFFERENCE_SHOWN,
    DIFFERENCE_CANNOT_TELL, /* too few processes, or unstable */
};

struct difference_row {
    const double *a, *b; /* [na], [nb]: values of the processes; NaN: none */
    /* Range of the repeats of each side, used if the row cannot be tested. NaN: range of the processes'
     * values. */
    double a_min, a_max, b_min, b_max;
    /* CV of the repeats, used if the row cannot be tested. NaN: unknown; no difference is shown. */
    double a_cv, b_cv;

    double a_median, b_median; /* with blocks: after removing the drift */
    double change;             /* b_median / a_median - 1 */
    double low, high;          /* 95% interval of the change, valid for all rows together; NaN: not tested */
    /* Smallest change that the test can show. If not tested: DIFFERENCE_FLOOR, or NaN if the repeats are
     * unstable or their CV is unknown. */
    double believable;
    double p; /* adjusted for all rows; NaN: not tested */
    /* A side's CV is above DIFFERENCE_UNSTABLE_CV: that of its processes or, if not tested, of its
     * repeats. */
    bool unstable;
    enum difference_verdict verdict;
};

/* Returns true if na against nb processes can reach a p-value of 5%: for example 4 against 4, or 3
 * against 4. */
bool difference_can_test(size_t na, size_t nb);
/* block[na + nb]: the blocks of A's processes, then of B's, numbered from 0 without gaps. NULL: one block.
 * Returns false if `stop` ended the test early: the rows are not valid then. `stop` may be NULL. */
bool difference_test(struct difference_row *rows, size_t nrows, size_t na, size_t nb, const uint32_t *block,
                     const struct stop *stop);

/* Divides processes into blocks. is_b[n]: the sides in the order in which the processes ran. Sets block[n].
 * Returns the number of blocks. It is 1 if there are fewer than 8 processes, the sides have different sizes
 * or do not alternate, or the blocks leave too few splits for a p-value of 5%. */
size_t difference_blocks(const bool *is_b, size_t n, uint32_t *block);

#endif
