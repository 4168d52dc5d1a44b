/* The peaks to which a run is compared: from the settings, the environment, the GPU table, or measured on
 * this CPU. */
#ifndef SESSION_DEVICE_PEAK_H
#define SESSION_DEVICE_PEAK_H

#include "llm/bandwidth.h"
#include "llm/cost.h"
#include "session/profile_plan.h"

struct device_peak {
    struct llm_peak peak;      /* NaN: unknown */
    const struct llm_gpu *gpu; /* GPU whose datasheet has the peak FLOP/s; NULL: another source */
    struct llm_levels levels;  /* bandwidth by working-set size; n 0: only one bandwidth is known */
    double read_bytes_per_s;   /* read bandwidth of a GPU that `calibrate` measured; NaN: not measured */
    char device[160];          /* such as "NVIDIA H200", or the name of the CPU */
    char type[64];             /* "bf16 dense"; "f32"; "": CPU, and the user gave both peaks */
    char source[320];          /* source of the peaks; "": unknown */
    char detail[160];          /* details about the source, for assumptions.md; may be "" */
};

/* Fills `out`. Logs a warning that names the peaks that are not known. */
void device_peak_find(const struct profile_plan *p, struct device_peak *out);

#endif
