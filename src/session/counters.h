/* Samples hardware counters during a run: starts the program inferprof-counters, which writes its own trace
 * file. This process does not load CUDA.
 *     struct engine_proc *c = counters_start("counters.ipt", 100, "GPU-...", &err); -- NULL: see err
 *     ...
 *     counters_stop(c);                                                             -- accepts NULL */
#ifndef SESSION_COUNTERS_H
#define SESSION_COUNTERS_H

#include "base/err.h"
#include "session/engine_proc.h"

/* Sampling intervals of the presets default and max. */
#define COUNTERS_DEFAULT_US 100
#define COUNTERS_MAX_US 20

/* `device`: as in CUDA_VISIBLE_DEVICES; NULL: all devices visible to this process. Returns when sampling
 * has started. */
struct engine_proc *counters_start(const char *trace_path, unsigned interval_us, const char *device,
                                   struct err *err);
void counters_stop(struct engine_proc *c); /* returns when the file is complete */

#endif
