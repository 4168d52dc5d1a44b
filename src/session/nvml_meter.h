/* The energy counter of one GPU: the difference of two readings is the energy used in between. Each reading
 * is one NVML call from this process. NVML updates the counter every 20 to 100 ms.
 *     struct nvml_meter *m = nvml_meter_open("GPU-0a1b...", &err);      -- NULL: no counter, see err
 *     double before = nvml_meter_joules(m);
 *     nvml_meter_close(m);                                              -- accepts NULL */
#ifndef SESSION_NVML_METER_H
#define SESSION_NVML_METER_H

#include "base/err.h"

struct nvml_meter;
struct nvml_meter *nvml_meter_open(const char *uuid, struct err *err);
/* returns the energy since the driver was loaded; NaN: unknown, or m is NULL */
double nvml_meter_joules(const struct nvml_meter *m);
void nvml_meter_close(struct nvml_meter *m);

#endif
