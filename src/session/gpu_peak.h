/* Measured read bandwidth of the GPUs. The kernel only reads, as decoding does, from buffers that fit in
 * the L2 cache and from larger ones. Runs in a child process through the driver API; takes under a second
 * per GPU. */
#ifndef SESSION_GPU_PEAK_H
#define SESSION_GPU_PEAK_H

#include <stddef.h>

#include "base/err.h"

#define GPU_PEAK_DEVICES 16
#define GPU_PEAK_SIZES 4

struct gpu_read {
    double bytes, bytes_per_s; /* best of the rounds */
};
struct gpu_peak {
    char name[96];
    double l2_bytes;
    /* in ascending order of size; sizes up to l2_bytes are read from the L2 cache */
    struct gpu_read reads[GPU_PEAK_SIZES];
    size_t nreads;
    double bytes_per_s; /* bandwidth of the largest size; NaN: not measured */
    char problem[256];  /* why it was not measured; "" */
};
struct gpu_peaks {
    struct gpu_peak v[GPU_PEAK_DEVICES];
    size_t n;
};

/* Measures all GPUs that CUDA reports. Returns -1 if there is none or the driver does not work; err says
 * what is missing. A GPU that cannot be measured has a problem instead of figures. */
int gpu_peaks_measure(struct gpu_peaks *out, struct err *err);

#endif
