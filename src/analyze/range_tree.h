/* Which ranges are around a range, for all ranges at once. Walking up from each range or kernel would take
 * minutes for 180,000 nested ranges. */
#ifndef ANALYZE_RANGE_TREE_H
#define ANALYZE_RANGE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "timeline/timeline.h"

typedef bool range_test(const void *arg, size_t range);

/* Returns nearest[i]: range i if it passes the test, else the nearest range around it that does;
 * TIMELINE_NONE: there is none. The caller frees the array. */
uint32_t *range_tree_nearest(const struct timeline_ranges *r, range_test *passes, const void *arg);

/* Returns the range of this kind around range i, with the array of range_tree_nearest(). */
uint32_t range_tree_around(const struct timeline_ranges *r, const uint32_t *nearest, size_t i);

/* Returns the time of each range in which a range directly inside it is open. `nearest` is of
 * range_tree_nearest() and selects the ranges that count; NULL: all. Two ranges inside can cross: they count
 * once. The caller frees the array. */
uint64_t *range_tree_inside_ns(const struct timeline_ranges *r, const uint32_t *nearest);

/* Returns when device work was launched; its start if that is not known. */
uint64_t range_launch_ns(const struct timeline *tl, uint32_t launch, uint64_t start_ns);

/* Sums of device work per range: of the work that it launched, and that the ranges nested in it launched
 * while it was open. A range can end after the one around it, for example a Python frame that never returned.
 *     struct range_sums *s = range_sums_open(&tl->ranges);
 *     range_sums_add(s, range, launched_ns, value);   -- range: innermost; TIMELINE_NONE: no effect
 *     const double *sums = range_sums_finish(s);      -- [ranges.n]
 *     range_sums_close(s); */
struct range_sums;
struct range_sums *range_sums_open(const struct timeline_ranges *r);
void range_sums_add(struct range_sums *s, uint32_t range, uint64_t launched_ns, double value);
const double *range_sums_finish(struct range_sums *s); /* valid until range_sums_close() */
void range_sums_close(struct range_sums *s);           /* accepts NULL */

/* Ranges grouped into rows, for the totals of a row. A call within another call of its row (a recursion)
 * counts where the outer ones are closed: it can end after the call around it.
 *     struct range_rows rows = range_rows_open(&tl->ranges, row, nrows);
 * row[i]: the row of range i, less than nrows; TIMELINE_NONE: it has none. */
struct range_rows {
    const struct timeline_ranges *r;
    const uint32_t *row;
    size_t nrows;
    uint32_t *within; /* [ranges.n]: the next range around it of the same row; TIMELINE_NONE: none */
};
struct range_rows range_rows_open(const struct timeline_ranges *r, const uint32_t *row, size_t nrows);
void range_rows_close(struct range_rows *rows);

/* Returns [nrows]: the time in which a call of the row is open, per outermost call. The caller frees it. */
uint64_t *range_rows_open_ns(const struct range_rows *rows);

/* Returns [nrows]: the work launched while a call of the row around it was open, after range_sums_finish().
 * The caller frees it. */
double *range_rows_work(const struct range_rows *rows, const struct range_sums *s);

#endif
