/* Samples power, clocks, temperature, throttle reasons and energy of every GPU through NVML, from this
 * process and not from the profiled one. libnvidia-ml.so.1 is loaded at run time. Values that a GPU does not
 * report are unknown.
 *     struct nvml_sampler *s = nvml_sampler_start("run/trace/nvml.ipt", 100, &err);    -- NULL: see err
 *     ...
 *     nvml_sampler_stop(s, &err);                                                      -- accepts NULL */
#ifndef SESSION_NVML_H
#define SESSION_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct nvml_sampler;
struct nvml_sampler *nvml_sampler_start(const char *trace_path, unsigned interval_ms, struct err *err);
int nvml_sampler_stop(struct nvml_sampler *s, struct err *err); /* -1: the file is incomplete */

enum nvml_mig { NVML_MIG_UNKNOWN, NVML_MIG_NOT_SUPPORTED, NVML_MIG_OFF, NVML_MIG_ON };
struct nvml_gpu {
    char name[96], uuid[96];
    uint64_t memory_bytes;               /* 0: unknown */
    int cc_major, cc_minor;              /* -1: unknown */
    uint32_t sm_max_mhz, power_limit_mw; /* 0: unknown */
    enum nvml_mig mig;
};
#define NVML_MAX_GPUS 64
struct nvml_inventory {
    char library[256]; /* path of libnvidia-ml.so.1 */
    char driver[96];   /* "580.159" */
    int cuda_version;  /* supported by the driver: 13000; 0: unknown */
    size_t ngpus;
    struct nvml_gpu gpus[NVML_MAX_GPUS];
};
int nvml_inventory(struct nvml_inventory *out, struct err *err); /* -1: no NVML, see err */

#endif
