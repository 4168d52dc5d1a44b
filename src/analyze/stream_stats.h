/* Statistics of a stream too long to keep: count, sum and mean of all values, the rest from an even choice
 * of at most STREAM_STATS_MAX of them. Zeroed to start; take frees it. */
#ifndef ANALYZE_STREAM_STATS_H
#define ANALYZE_STREAM_STATS_H

#include <stdint.h>

#include "base/stats.h"

#define STREAM_STATS_MAX 65536
struct stream_stats {
    double *v;
    size_t n;
    uint64_t seen, stride;
    double sum;
};
void stream_stats_add(struct stream_stats *s, double v);
struct stats stream_stats_take(struct stream_stats *s);

#endif
