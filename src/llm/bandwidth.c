#include "llm/bandwidth.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const struct llm_level *llm_level_for(const struct llm_levels *levels, double working_set_bytes) {
    if (!levels->n || !(working_set_bytes > 0)) return NULL;
    const struct llm_level *found = &levels->v[0];
    for (size_t i = 1; i < levels->n; i++)
        if (levels->v[i].bytes <= working_set_bytes) found = &levels->v[i];
    return found;
}

const char *llm_level_text(const struct llm_level *level, char *buf, size_t cap) {
    bool mib = level->bytes >= 1048576;
    snprintf(buf, cap, "%.7s, %.0f %s", level->name, level->bytes / (mib ? 1048576 : 1024),
             mib ? "MiB" : "KiB");
    return buf;
}

#define SAME_SIZE 1.05 /* a working set up to so many times the measured one has its bandwidth */

const char *llm_level_text_for(const struct llm_level *level, double working_set_bytes, char *buf,
                               size_t cap) {
    bool mib = level->bytes >= 1048576;
    if (!(working_set_bytes > SAME_SIZE * level->bytes) || strcmp(level->name, "DRAM") == 0)
        return llm_level_text(level, buf, cap);
    snprintf(buf, cap, "measured at %.0f %s, upper bound", level->bytes / (mib ? 1048576 : 1024),
             mib ? "MiB" : "KiB");
    return buf;
}

void llm_levels_settle(struct llm_levels *levels) {
    for (size_t i = levels->n; i-- > 1;)
        levels->v[i - 1].bytes_per_s = fmax(levels->v[i - 1].bytes_per_s, levels->v[i].bytes_per_s);
}
