/* Length of the union of intervals. Intervals must be added in order of their start. Initialise with
 * zeros. */
#ifndef ANALYZE_INTERVAL_UNION_H
#define ANALYZE_INTERVAL_UNION_H

#include <stdint.h>

#include "base/util.h"

struct interval_union {
    uint64_t total_ns;
    uint64_t end_ns; /* the latest end so far */
};

static inline void interval_union_add(struct interval_union *u, uint64_t start_ns, uint64_t end_ns) {
    if (end_ns <= u->end_ns) return;
    u->total_ns += end_ns - MAX(start_ns, u->end_ns);
    u->end_ns = end_ns;
}

#endif
