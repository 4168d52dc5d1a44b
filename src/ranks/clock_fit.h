/* Fits one clock to another from pairs of times of the same events. Pure arithmetic; clocks.c makes the
 * pairs.
 *
 * Method: the difference of the two clocks over time is a piecewise straight line. Large steps are found
 * first, from medians before and after each point. Then a piece is divided where two lines lower the sum of
 * absolute residuals (each limited to CLOCK_CLIP standard deviations) by more than 3 ln(n) + CLOCK_GAIN
 * standard deviations. This search uses Tukey's resistant lines. The line of a finished piece is Theil and
 * Sen's: the median of the slopes of pairs of points, then the median of the residuals. It tolerates 25% of
 * outliers. */
#ifndef RANKS_CLOCK_FIT_H
#define RANKS_CLOCK_FIT_H

#include <stddef.h>

#define CLOCK_SEGMENTS_MAX 64

struct clock_point {
    double reference_ns;  /* time of the event on the reference clock */
    double difference_ns; /* time on the fitted clock minus reference_ns */
};

struct clock_line {
    size_t first, n; /* points of this piece */
    double at_ns;    /* reference time at which the offset is offset_ns: the median over the points */
    double offset_ns;
    /* Change of the offset per ns of the reference clock. For fewer than 8 points: that of the longest piece,
     * or 0 without a longer piece. */
    double drift;
    double drift_error; /* half the 95% interval; NaN: fewer than 8 points */
    double error_ns;    /* as in struct rank_clock_segment; NaN: a single point */
    size_t outliers;
};

/* `p` is in the order of reference_ns. `out` has room for CLOCK_SEGMENTS_MAX pieces. Returns the number of
 * pieces; 0 if n is 0. */
size_t clock_fit(const struct clock_point *p, size_t n, struct clock_line *out);

#endif
