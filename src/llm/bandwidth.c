#include "llm/bandwidth.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

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

void llm_levels_settle(struct llm_levels *levels) {
    for (size_t i = levels->n; i-- > 1;)
        levels->v[i - 1].bytes_per_s = fmax(levels->v[i - 1].bytes_per_s, levels->v[i].bytes_per_s);
}
