/* Measured peak performance of this CPU: FLOP/s of matrix products on all usable cores, in single precision
 * and, if the CPU has instructions for it, of bf16 numbers; and bytes/s of reading working sets from 256 KiB
 * (caches) to 512 MiB (DRAM), divided among the cores. Measured once in a child process, which needs about
 * 550 MB, and cached in $XDG_CACHE_HOME/inferprof/cpu-peak.json by CPU name and number of cores. A
 * measurement disturbed by other programs is used but not cached. */
#ifndef SESSION_CPU_PEAK_H
#define SESSION_CPU_PEAK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "llm/bandwidth.h"

struct cpu_peak {
    char cpu[128];
    unsigned threads;
    /* bytes_per_s: bandwidth of DRAM, measured with the largest working set */
    double flops_per_s, bytes_per_s;
    struct llm_levels levels; /* n 0: read from a cache file of an older version */
    char kernel[32];          /* implementation of the matrix product: "avx512", "avx2", "portable" */
    double bf16_flops_per_s;  /* 0: the CPU has no instructions for it */
    char bf16_kernel[32];     /* "amx", "avx512bf16"; "": none */
    uint64_t measured_wall_ns;
    double spread;    /* 1 - second best / best round: the larger value of FLOP/s and bytes/s */
    double cpu_share; /* CPU time / wall time of the threads: the smaller value of FLOP/s and bytes/s */
    unsigned rounds;
    bool cached; /* read from the cache file, not measured now */
    bool kept;   /* stored in the cache file */
};

void cpu_name(char *out, unsigned long cap); /* "AMD EPYC 9654 96-Core Processor" */
unsigned cpu_usable(void);                   /* cores available to this process */
/* Reads the peaks from the cache, or measures and caches them. `again`: always measures. Returns -1: see
 * err. */
int cpu_peak_get(struct cpu_peak *out, bool again, struct err *err);
/* false: not in the cache */
bool cpu_peak_cached(struct cpu_peak *out);
/* see peak_cache_path(); the caller frees it */
char *cpu_peak_cache_path(void);

/* Returns true if the threads ran almost all the time and the best two rounds agree, so that the result
 * may be cached. */
bool cpu_peak_is_stable(const struct cpu_peak *p);
/* Writes a stable measurement to the cache, replacing the old entry. Returns false if it is not stable or the
 * file cannot be written. */
bool cpu_peak_keep(const char *path, const struct cpu_peak *p);

#endif
