/* Finds the moment of a step of a clock in the traces of its ranks. Matched collectives show how large a step
 * is and between which two collectives it happened. In between, one kernel, or the gap between two kernels,
 * looks longer or shorter by the step than others of its kind. */
#ifndef RANKS_STEP_PLACE_H
#define RANKS_STEP_PLACE_H

#include "ranks/digest.h"

struct step_window {
    /* ends of the last collective before the step and of the first one after it, on the rank's own clock */
    uint64_t before_ns, after_ns;
    double step_ns, error_ns;
};

/* The digests are of ranks with this clock. Returns the evidence for the step: the mean over their streams of
 * ln(likelihood with the step / likelihood without it); -INFINITY: no stream can contain it. *at_ns: time
 * that the clock showed just before it was set. `readers` are already open; NULL: none. */
double step_place_find(const struct rank_digest *const *digests, size_t n, const struct step_window *w,
                       struct trace_set *readers, uint64_t *at_ns);

#endif
