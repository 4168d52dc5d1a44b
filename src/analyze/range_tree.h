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

/* row[i]: the row of range i, less than nrows; TIMELINE_NONE: it has none. Returns one flag per range: it has
 * a row, and no range around it has the same row (the outermost call of a recursion). The caller frees the
 * array. */
bool *range_tree_outermost(const struct timeline_ranges *r, const uint32_t *row, size_t nrows);

/* Returns when device work was launched; its start if that is not known. */
uint64_t range_launch_ns(const struct timeline *tl, uint32_t launch, uint64_t start_ns);

/* Sums of device work per range: of the work that it launched, and that the ranges nested in it launched
 * while it was open. A range can end after the one around it, for example a Python frame that never returned.
 *     struct range_sums *s = range_sums_open(&tl->ranges);
 *     range_sums_add(s, range, launched_ns, value);   -- range: innermost; TIMELINE_NONE: no effect
 *     double *sums = range_sums_close(s);             -- [ranges.n]; the caller frees it */
struct range_sums;
struct range_sums *range_sums_open(const struct timeline_ranges *r);
void range_sums_add(struct range_sums *s, uint32_t range, uint64_t launched_ns, double value);
double *range_sums_close(struct range_sums *s); /* accepts NULL */

#endif
