/* Read bandwidth of a device by the size of the working set. A CPU reads weights that fit into a cache
 * much faster than weights in DRAM. */
#ifndef LLM_BANDWIDTH_H
#define LLM_BANDWIDTH_H

#include <stddef.h>

#define LLM_LEVELS_MAX 16

struct llm_level {
    char name[8]; /* "L3", "DRAM" */
    double bytes; /* working set of the measurement */
    double bytes_per_s;
};
struct llm_levels {
    struct llm_level v[LLM_LEVELS_MAX]; /* in ascending order of size; the last one is DRAM */
    size_t n;                           /* 0: only one bandwidth is known */
};

/* Returns the measurement that applies to a working set: the largest one whose size is not larger, else
 * the smallest. The true bandwidth is between it and the next one, so times computed from it are never too
 * long. The rate is at least that of every larger size. NULL: no levels, or the working set is unknown. */
const struct llm_level *llm_level_for(const struct llm_levels *levels, double working_set_bytes);
/* "L3, 32 MiB"; returns buf. */
const char *llm_level_text(const struct llm_level *level, char *buf, size_t cap);
/* Makes the rates decrease with the size, as with every cache. A rate below that of a larger size was
 * disturbed. */
void llm_levels_settle(struct llm_levels *levels);

#endif
