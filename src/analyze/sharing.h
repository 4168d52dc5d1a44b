/* Shares the time of a device between the pieces of work that run on it: while n run, each owns 1/n of the
 * time.
 *     struct sharing s = { 0 };
 *     for each piece of work, in order of its start:
 *         while (sharing_end(&s, start_ns, &r, &owned)) ...   -- ended by then, in order of its end
 *         sharing_start(&s, start_ns, (struct running){ .end_ns = end_ns, .id = ... });
 *     while (sharing_end(&s, UINT64_MAX, &r, &owned)) ...
 *     sharing_free(&s); */
#ifndef ANALYZE_SHARING_H
#define ANALYZE_SHARING_H

#include "analyze/end_heap.h"

struct sharing {
    struct end_heap running;
    size_t kernels, communicating; /* of the running work; the latter: communication kernels only */
    struct shares sums;            /* what work would own that runs since the device was last idle */
    uint64_t now_ns;
};

void sharing_start(struct sharing *s, uint64_t start_ns, struct running r);
/* Takes the next piece of work that ends by `time_ns`, and what it owns. Returns false if there is none. */
bool sharing_end(struct sharing *s, uint64_t time_ns, struct running *r, struct shares *owned);
void sharing_free(struct sharing *s);

#endif
