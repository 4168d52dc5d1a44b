/* Hardware counters beside a run: starts the program inferprof-counters, which samples the GPU into a
 * trace file of its own while this process stays free of CUDA.
 *     struct engine_proc *c = counters_start("run/trace/counters.ipt", 100, "GPU-...", &err);    -- NULL: err says why
 *     ...
 *     counters_stop(c);                                                                          -- NULL is fine */
#ifndef SESSION_COUNTERS_H
#define SESSION_COUNTERS_H

#include "base/err.h"
#include "session/engine_proc.h"

/* Between samples, as the presets have it. */
#define COUNTERS_DEFAULT_US 100
#define COUNTERS_MAX_US 20

/* `device`: as CUDA_VISIBLE_DEVICES names it; NULL: every one this process may see. Returns once samples
 * are being taken. */
struct engine_proc *counters_start(const char *trace_path, unsigned interval_us, const char *device,
                                   struct err *err);
void counters_stop(struct engine_proc *c); /* returns once the file is whole */

#endif
