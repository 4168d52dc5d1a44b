/* Measured read bandwidth of the GPUs. The kernel only reads, as decoding does, from buffers that fit in
 * the L2 cache and from larger ones. Runs in a child process through the driver API; takes under a second
 * per GPU. */
#ifndef SESSION_GPU_PEAK_H
#define SESSION_GPU_PEAK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define GPU_PEAK_DEVICES 16
#define GPU_PEAK_SIZES 4

struct gpu_read {
    double bytes, bytes_per_s; /* size of the buffer; best rate of the rounds */
};
struct gpu_peak {
    char name[96];
    double l2_bytes;
    /* in ascending order of size; sizes up to l2_bytes are read from the L2 cache */
    struct gpu_read reads[GPU_PEAK_SIZES];
    size_t nreads;
    double bytes_per_s; /* bandwidth of the largest size; NaN: not measured */
    double spread;      /* 1 - second best / best round of the largest size */
    char problem[256];  /* why it was not measured; "": it was measured */
};
struct gpu_peaks {
    struct gpu_peak v[GPU_PEAK_DEVICES];
    size_t n;
};

/* Measures the GPUs that CUDA reports, at most GPU_PEAK_DEVICES. Returns -1 if there is none, the driver does
 * not work or the child fails; err has the reason. If one GPU cannot be measured, its `problem` is set. */
int gpu_peaks_measure(struct gpu_peaks *out, struct err *err);

/* Cache file gpu-peak.json (peak_cache.h), one row per GPU name. Reports print the measured read bandwidth
 * next to the bandwidth in the datasheet. */
char *gpu_peak_cache_path(void); /* see peak_cache_path() */
/* Returns true if the best two rounds agree within 5%. They differ more if another program uses the GPU. */
bool gpu_peak_is_stable(const struct gpu_peak *p);
/* Stores the stable measurements. Returns false if the file cannot be written. */
bool gpu_peaks_keep(const struct gpu_peaks *gpus);
/* returns the bytes/s of reading DRAM; NaN: this GPU is not in the cache file */
double gpu_peak_cached(const char *name);
void gpu_peaks_cached(struct gpu_peaks *out); /* all rows of the cache file */

#endif
