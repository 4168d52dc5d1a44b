/* What this CPU can do, measured: single-precision FLOP/s of a matrix product on all usable cores, and
 * bytes/s of reading memory that no cache holds. Measured once in a child process (it needs some 300 MB
 * for a moment) and kept in $XDG_CACHE_HOME/inferprof/cpu-peak.json under the CPU's name. A measurement
 * that other programs disturbed is used for want of a better one, but never kept. */
#ifndef SESSION_CPU_PEAK_H
#define SESSION_CPU_PEAK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct cpu_peak {
    char cpu[128];
    unsigned threads;
    double flops_per_s, bytes_per_s;
    char kernel[32]; /* "avx512", "avx2", "portable": what the matrix product was made of */
    uint64_t measured_wall_ns;
    double spread; /* the second best round under the best, as a share; the worse of the two measurements */
    double cpu_share; /* of the time the threads wanted their cores, how much they had them */
    unsigned rounds;
    bool cached; /* read from the file, not measured now */
    bool kept;   /* it is in the file */
};

void cpu_name(char *out, unsigned long cap); /* "AMD EPYC 9654 96-Core Processor" */
unsigned cpu_usable(void);                   /* cores this process may use */
/* From the cache, else measured and stored there. `again`: measured in any case. -1: err. */
int cpu_peak_get(struct cpu_peak *out, bool again, struct err *err);
char *cpu_peak_cache_path(void); /* caller frees; NULL: neither XDG_CACHE_HOME nor HOME is set */

/* Nobody else took the cores, and the best two rounds agree: fit to be kept. */
bool cpu_peak_is_stable(const struct cpu_peak *p);
/* Stores a stable one in place of what was there; false: not stable, or the file cannot be written. */
bool cpu_peak_keep(const char *path, const struct cpu_peak *p);

/* In this process, without a cache. seconds: about how long each of the two measurements may take. */
int cpu_peak_measure(struct cpu_peak *out, double seconds, struct err *err);

#endif
