/* Statistics of more values than should be kept in memory. Count, sum and mean are over all values; all
 * other figures are over at most STREAM_STATS_MAX of them, evenly spaced in order of arrival.
 *     struct stream_stats s = { 0 };
 *     stream_stats_add(&s, v);
 *     struct stats r = stream_stats_take(&s);     -- frees the values; s can be used again */
#ifndef ANALYZE_STREAM_STATS_H
#define ANALYZE_STREAM_STATS_H

#include <stdint.h>

#include "base/stats.h"

#define STREAM_STATS_MAX 65536
struct stream_stats {
    double *v; /* the kept values */
    size_t n;
    uint64_t seen, stride; /* number of values added; every stride-th value is kept */
    double sum;            /* sum of all values */
};
void stream_stats_add(struct stream_stats *s, double v);
struct stats stream_stats_take(struct stream_stats *s);

#endif
