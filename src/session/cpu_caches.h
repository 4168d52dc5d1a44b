/* Sizes of the CPU's caches, from sysfs. */
#ifndef SESSION_CPU_CACHES_H
#define SESSION_CPU_CACHES_H

#define CPU_CACHES_SYSFS "/sys/devices/system/cpu"
#define CPU_CACHE_LEVELS 4

/* Sums the bytes of the data caches of each level, over the different caches of the cores that this
 * process may use. [0] is L1; 0: unknown or none. `root`: CPU_CACHES_SYSFS. */
void cpu_caches_read(const char *root, double bytes[CPU_CACHE_LEVELS]);
/* Returns the name of the first level that can contain this many bytes, such as "L2"; "DRAM" if none can,
 * "" if no cache is known. */
const char *cpu_caches_level(const double bytes[CPU_CACHE_LEVELS], double working_set_bytes);

#endif
