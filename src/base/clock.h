/* Clocks, in nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

uint64_t clock_mono_ns(void); /* CLOCK_MONOTONIC: for durations */
uint64_t clock_wall_ns(void); /* ns since the epoch */
/* strftime() in UTC or local time; returns `out` */
const char *clock_format(uint64_t wall_ns, const char *strftime_format, int utc, char *out, size_t cap);

#endif
