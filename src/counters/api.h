/* The functions of CUPTI's PM sampling and of the driver that the sampler uses, as a table filled at run
 * time. The argument structs are declared here, so that building requires no NVIDIA headers. Their layout
 * has been stable since CUDA 12.6: a size, a private pointer, then fields; new fields are only added at
 * the end. */
#ifndef COUNTERS_API_H
#define COUNTERS_API_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "driver/cuda.h"

#define PM_BLOCK \
    size_t size; \
    void *priv /* start of every argument struct */
#define PM_SIZED(type) ((type){ .size = sizeof(type) })

struct pm_no_args {
    PM_BLOCK;
};
struct pm_chip_name {
    PM_BLOCK;
    size_t device;
    const char *name;
};
struct pm_availability {
    PM_BLOCK;
    size_t device;
    size_t bytes;
    uint8_t *image;
};
struct pm_host_open {
    PM_BLOCK;
    int type;
    const char *chip;
    const uint8_t *availability;
    void *host;
};
struct pm_host {
    PM_BLOCK;
    void *host;
};
struct pm_add_metrics {
    PM_BLOCK;
    void *host;
    const char **names;
    size_t n;
};
struct pm_image_size {
    PM_BLOCK;
    void *host;
    size_t bytes;
};
struct pm_image {
    PM_BLOCK;
    void *host;
    size_t bytes;
    uint8_t *image;
};
struct pm_passes {
    PM_BLOCK;
    size_t bytes;
    uint8_t *image;
    size_t passes;
};
struct pm_evaluate {
    PM_BLOCK;
    void *host;
    const uint8_t *data;
    size_t bytes, sample;
    const char **names;
    size_t n;
    double *values;
};
struct pm_enable {
    PM_BLOCK;
    size_t device;
    void *sampling;
};
struct pm_sampling {
    PM_BLOCK;
    void *sampling;
};
struct pm_configure {
    PM_BLOCK;
    void *sampling;
    size_t bytes;
    const uint8_t *image;
    size_t buffer_bytes;
    uint64_t interval;
    int trigger, append;
};
struct pm_data_size {
    PM_BLOCK;
    void *sampling;
    const char **names;
    size_t n;
    uint32_t max_samples;
    size_t bytes;
};
struct pm_data_init {
    PM_BLOCK;
    void *sampling;
    size_t bytes;
    uint8_t *data;
};
/* `overflow` is one byte at the end; `size` must not include the padding after it. */
struct pm_decode {
    PM_BLOCK;
    void *sampling;
    uint8_t *data;
    size_t bytes;
    int stop_reason;
    uint8_t overflow;
};
struct pm_data_info {
    PM_BLOCK;
    const uint8_t *data;
    size_t bytes, total, populated, completed;
};
struct pm_sample_info {
    PM_BLOCK;
    void *sampling;
    const uint8_t *data;
    size_t bytes, sample;
    uint64_t start_ns, end_ns;
};

enum {
    PM_TYPE_SAMPLING = 1,
    PM_TRIGGER_CLOCK = 0,
    PM_TRIGGER_TIME = 1,
    PM_KEEP_OLDEST = 0,
    PM_STOP_DATA_FULL = 1
};
enum {
    PM_OK = 0,
    PM_OUT_OF_MEMORY = 8,
    PM_HARDWARE_BUSY = 26,
    PM_NOT_SUPPORTED = 27,
    PM_VIRTUALIZED = 33,
    PM_NO_PRIVILEGES = 35,
    PM_VIRTUALIZED_PRIVILEGES = 40,
    PM_CONFIDENTIAL = 41,
    PM_MIG = 43,
};

/* X(name in the library, field, argument struct) */
#define PM_CALLS(X)                                                                \
    X(cuptiProfilerInitialize, initialize, struct pm_no_args)                      \
    X(cuptiDeviceGetChipName, chip_name, struct pm_chip_name)                      \
    X(cuptiPmSamplingGetCounterAvailability, availability, struct pm_availability) \
    X(cuptiProfilerHostInitialize, host_open, struct pm_host_open)                 \
    X(cuptiProfilerHostDeinitialize, host_close, struct pm_host)                   \
    X(cuptiProfilerHostConfigAddMetrics, add_metrics, struct pm_add_metrics)       \
    X(cuptiProfilerHostGetConfigImageSize, image_size, struct pm_image_size)       \
    X(cuptiProfilerHostGetConfigImage, image, struct pm_image)                     \
    X(cuptiProfilerHostGetNumOfPasses, passes, struct pm_passes)                   \
    X(cuptiProfilerHostEvaluateToGpuValues, evaluate, struct pm_evaluate)          \
    X(cuptiPmSamplingEnable, enable, struct pm_enable)                             \
    X(cuptiPmSamplingDisable, disable, struct pm_sampling)                         \
    X(cuptiPmSamplingSetConfig, configure, struct pm_configure)                    \
    X(cuptiPmSamplingStart, start, struct pm_sampling)                             \
    X(cuptiPmSamplingStop, stop, struct pm_sampling)                               \
    X(cuptiPmSamplingDecodeData, decode, struct pm_decode)                         \
    X(cuptiPmSamplingGetCounterDataSize, data_size, struct pm_data_size)           \
    X(cuptiPmSamplingCounterDataImageInitialize, data_init, struct pm_data_init)   \
    X(cuptiPmSamplingGetCounterDataInfo, data_info, struct pm_data_info)           \
    X(cuptiPmSamplingCounterDataGetSampleInfo, sample_info, struct pm_sample_info)

struct pm_api {
#define X(symbol, field, block) int (*field)(block *);
    PM_CALLS(X)
#undef X
    int (*error_string)(int, const char **);
    const struct driver *driver;
    char cupti_path[256];
};

int pm_api_open(struct pm_api *api, struct err *err); /* loads and initialises the driver and CUPTI */
/* Sets err to the failed operation and, if known, the remedy. Always returns -1. */
int pm_api_error(const struct pm_api *api, int code, const char *doing, struct err *err);

#endif
