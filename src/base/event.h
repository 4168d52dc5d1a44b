/* A counter to wait for, without a lock. Safe in signal handlers and after fork; no cancellation point.
 *     unsigned seen = event_count(&e);
 *     if (nothing_to_do()) event_wait(&e, seen, until_ns);
 * Read the counter before checking the condition, so that no event_set() is missed. */
#ifndef BASE_EVENT_H
#define BASE_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct event {
    atomic_uint count, waiters;
};

static inline unsigned event_count(struct event *e) { return atomic_load(&e->count); }
void event_set(struct event *e); /* wakes all waiters */
/* Returns when the counter is not `seen`, at the deadline (CLOCK_MONOTONIC), or spuriously earlier: check
 * again. */
void event_wait(struct event *e, unsigned seen, uint64_t until_ns);
void event_reset(struct event *e); /* for the child after fork */

#endif
