/* The energy counter of one GPU: read before and after a piece of work, it says what the GPU took for it.
 * One call of NVML from this process each time, nothing in between. NVML renews the counter every 20 to
 * 100 ms.
 *     struct nvml_meter *m = nvml_meter_open("GPU-0a1b...", &err);      -- NULL: this GPU has none
 *     double before = nvml_meter_joules(m);
 *     nvml_meter_close(m);                                              -- NULL does nothing */
#ifndef SESSION_NVML_METER_H
#define SESSION_NVML_METER_H

#include "base/err.h"

struct nvml_meter;
struct nvml_meter *nvml_meter_open(const char *uuid, struct err *err);
double
nvml_meter_joules(const struct nvml_meter *m); /* since the driver was loaded; NaN: unknown, also for NULL */
void nvml_meter_close(struct nvml_meter *m);

#endif
