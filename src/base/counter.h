/* The processor's time stamp counter: a fast timestamp in ticks of unknown length. */
#ifndef BASE_COUNTER_H
#define BASE_COUNTER_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>
/* True if the counter runs at a constant rate in all power states (invariant TSC). */
static inline bool counter_is_steady(void) {
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
}
static inline uint64_t counter_now(void) { return __builtin_ia32_rdtsc(); }
#else
static inline bool counter_is_steady(void) { return false; }
static inline uint64_t counter_now(void) { return 0; }
#endif

#endif
