/* Until when a process runs work on devices other than the one that is walked. Work that was launched on one
 * device may wait for work on another one: a model that is split over the GPUs of one process.
 *     struct elsewhere *e = elsewhere_open(c, device);
 *     elsewhere_busy_until(e, process, time_ns);
 *     elsewhere_close(e); */
#ifndef ANALYZE_ELSEWHERE_H
#define ANALYZE_ELSEWHERE_H

#include "analyze/internal.h"

struct elsewhere;
struct elsewhere *elsewhere_open(const struct context *c, uint32_t device);
/* Returns the latest time up to time_ns at which work of the process ran on another GPU; 0: none did. Times
 * must not decrease from call to call. */
uint64_t elsewhere_busy_until(struct elsewhere *e, uint32_t process, uint64_t time_ns);
void elsewhere_close(struct elsewhere *e);

#endif
