/* The vision part of prefill: its sub-stages together, and the rest. */
#ifndef RUN_VISION_H
#define RUN_VISION_H

#include "run/info.h"

/* NaN: unknown. */
struct run_vision {
    size_t parts; /* sub-stages of prefill; 0: none */
    double ms, flops, mfu;
    double rest_ms, rest_flops, rest_mfu;
};
/* Times are those of the timed repeats; without them, sums over the stages. */
struct run_vision run_vision(const struct run_info *run);

#endif
