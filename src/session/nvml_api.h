/* Table of the functions used from libnvidia-ml.so.1, filled at run time. Declared here, so that building
 * does not need NVIDIA's headers. */
#ifndef SESSION_NVML_API_H
#define SESSION_NVML_API_H

#include <stdint.h>

#include "base/err.h"

struct nvml_memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};
enum { NVML_OK = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_TEMPERATURE_GPU = 0, NVML_NOT_SUPPORTED = 3 };
typedef void *nvml_device;

struct nvml_api {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int);
    int (*driver_version)(char *, unsigned);
    int (*cuda_version)(int *);
    int (*count)(unsigned *);
    int (*handle)(unsigned, nvml_device *);
    int (*name)(nvml_device, char *, unsigned);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*power)(nvml_device, unsigned *);
    int (*clock)(nvml_device, int, unsigned *);
    int (*max_clock)(nvml_device, int, unsigned *);
    int (*temperature)(nvml_device, int, unsigned *);
    int (*throttle)(nvml_device, unsigned long long *);
    int (*energy)(nvml_device, unsigned long long *);
    int (*memory)(nvml_device, struct nvml_memory *);
    int (*mig)(nvml_device, unsigned *, unsigned *);
    int (*power_limit)(nvml_device, unsigned *);
    int (*capability)(nvml_device, int *, int *);
};

/* Loads and initialises NVML. Always set: init, shutdown, error_string, driver_version, count and handle. The
 * other functions may be NULL. */
int nvml_api_open(struct nvml_api *api, struct err *err);
void nvml_api_close(struct nvml_api *api);

#endif
