#include "base/random.h"

#include <sys/random.h>

#include "base/clock.h"

uint64_t random_u64(void) {
    uint64_t n;
    return getrandom(&n, sizeof n, 0) == sizeof n ? n : clock_mono_ns();
}
