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

/* Returns the largest level that is not larger than the working set, or the first level if all are larger.
 * Returns NULL if there are no levels or the working set is unknown. The level's rate is not below the
 * true rate, so computed times are never too long, except for working sets below the first level. */
const struct llm_level *llm_level_for(const struct llm_levels *levels, double working_set_bytes);
/* Writes text such as "L3, 32 MiB" to buf and returns buf. */
const char *llm_level_text(const struct llm_level *level, char *buf, size_t cap);
/* The same for a working set. If the set is larger than that of the measurement, it may not fit the cache:
 * the text is then "measured at 32 MiB, upper bound". */
const char *llm_level_text_for(const struct llm_level *level, double working_set_bytes, char *buf,
                               size_t cap);
/* Raises each rate at least to the rate of the next larger size. A lower rate means that the measurement
 * was disturbed, because smaller working sets are never slower. */
void llm_levels_settle(struct llm_levels *levels);

#endif
