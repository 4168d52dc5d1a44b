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

#endif
