/* Tests whether side B differs from side A. The statistical unit is the process: repeats within a process are
 * correlated, and two processes of the same binary differ by more than their repeats do (memory layout, page
 * placement, clocks). Each process contributes one value per row, the median of its repeats.
 *
 * Test: exact permutation of the processes over the two sides (20,000 random permutations if there are more).
 * The statistic of a row is the difference of the sides' medians of log(value), divided by its standard
 * error. The critical value is the 95% quantile of the largest statistic over all rows (Westfall and Young),
 * so that a table of equal sides contains any false difference in at most 5% of cases. Holm's correction of
 * exact p-values would require more than 5 processes per side for 7 or more rows: the smallest p-value of 5
 * against 5 processes is 2/252.
 *
 * Blocks: if the processes of the two sides alternate in time (ABBAABBAAB), the test can remove the drift of
 * the machine's speed. Processes that ran near each other form a block with equally many processes of both
 * sides. The differences between the means of the blocks are removed, and processes are permuted only within
 * their block, so the test stays exact. Simulated power for a slowdown of 5%: docs/compare.md.
 *     struct difference_row row = { .a = a, .b = b, .a_min = NAN, .b_min = NAN, .a_cv = NAN, .b_cv = NAN };
 *     difference_test(&row, 1, 5, 5, NULL); */
#ifndef BASE_DIFFERENCE_H
#define BASE_DIFFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIFFERENCE_UNSTABLE_CV 0.05
/* The smallest change that is reported if there are too few processes to test, or they are unstable. On a
 * machine with 4 times more runnable threads than cores, pairs of single processes of one binary with
 * stable repeats differed by more than this in 0.9% of 220 pairs (any of 8 rows). */
#define DIFFERENCE_FLOOR 0.10
/* Processes per side that `compare` recommends. */
#define DIFFERENCE_PROCESSES 5

enum difference_verdict {
    DIFFERENCE_UNKNOWN, /* a side has no value, or a value that is not above 0 */
    DIFFERENCE_NONE,    /* tested and not significant, or all values are equal */
    /* significant, or not tested but larger than differences between processes of one binary */
    DIFFERENCE_SHOWN,
    DIFFERENCE_CANNOT_TELL, /* too few processes, or unstable */
};

struct difference_row {
    const double *a, *b; /* [na], [nb]: one value per process; NaN: this process has no value */
    /* Lowest and highest single repeat of each side, used if the row cannot be tested; NaN: computed from the
     * processes. */
    double a_min, a_max, b_min, b_max;
    /* CV of the repeats, used if the row cannot be tested; NaN: unknown, so that no difference is shown */
    double a_cv, b_cv;

    double a_median, b_median; /* over processes; with blocks, after the removal of the drift */
    double change;             /* b_median / a_median - 1 */
    double low, high;          /* 95% interval of the change, valid for all rows together; NaN: not tested */
    /* Smallest change that these processes can show. If not tested: DIFFERENCE_FLOOR, or NaN if the CV is
     * unknown or too large. */
    double believable;
    double p; /* p-value, adjusted for the number of rows; NaN: not tested */
    /* The CV of a side is above DIFFERENCE_UNSTABLE_CV: of its processes or, if the row was not tested, of
     * its repeats. */
    bool unstable;
    enum difference_verdict verdict;
};

/* Returns true if na against nb processes can reach a p-value of 5%, for example 4 against 4, 3 against 4 or
 * 1 against 19. */
bool difference_can_test(size_t na, size_t nb);
/* block[na + nb]: block of each process of A, then of B; numbers from 0 without gaps. NULL: one block. */
void difference_test(struct difference_row *rows, size_t nrows, size_t na, size_t nb, const uint32_t *block);

/* Divides processes, in the order in which they ran, into blocks: block[n] receives the block of each
 * process. is_b[n]: side of each process. Returns the number of blocks. It is 1 if there are fewer than 8
 * processes, if the sides have different sizes or do not alternate, or if the blocks leave too few splits for
 * a p-value of 5%. */
size_t difference_blocks(const bool *is_b, size_t n, uint32_t *block);

#endif
