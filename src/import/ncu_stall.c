#include "import/ncu_stall.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define NUMBER_BYTES 32

static const struct {
    const char *name, *words;
} stalls[] = {
#define X(id, name, words) [NCU_STALL_##id] = { name, words },
    NCU_STALLS(X)
#undef X
};

const char *ncu_stall_name(enum ncu_stall s) { return stalls[s].name; }

/* Returns the longest stall reason with which p[0..n) starts; NCU_STALL_END: none. *used: its length. */
static enum ncu_stall reason(const char *p, size_t n, size_t *used) {
    enum ncu_stall best = NCU_STALL_END;
    *used = 0;
    for (size_t i = 0; i < COUNTOF(stalls); i++) {
        size_t len = strlen(stalls[i].name);
        if (len <= n && len > *used && memcmp(p, stalls[i].name, len) == 0) {
            best = (enum ncu_stall)i;
            *used = len;
        }
    }
    return best;
}

static bool starts_with(const char *p, size_t n, const char *word, size_t *len) {
    *len = strlen(word);
    return n >= *len && memcmp(p, word, *len) == 0;
}

static enum ncu_stall stall_by_label(const char *p, size_t n) {
    char low[40];
    size_t used;
    if (n >= sizeof low) return NCU_STALL_END;
    for (size_t i = 0; i < n; i++) low[i] = p[i] == ' ' ? '_' : (char)tolower((unsigned char)p[i]);
    enum ncu_stall s = reason(low, n, &used);
    return used == n ? s : NCU_STALL_END;
}

enum ncu_stall ncu_stall_of_metric(const char *name, size_t len, enum ncu_stall_source *source) {
    static const struct {
        const char *before, *after;
        enum ncu_stall_source source;
    } forms[] = {
        { "smsp__average_warp_latency_issue_stalled_", ".ratio", NCU_STALL_LATENCY },
        { "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio", NCU_STALL_RATIO },
        { "smsp__pcsamp_warps_issue_stalled_", "", NCU_STALL_SAMPLES },
    };
    size_t before, used;
    for (size_t i = 0; i < COUNTOF(forms); i++) {
        if (!starts_with(name, len, forms[i].before, &before)) continue;
        enum ncu_stall s = reason(name + before, len - before, &used);
        if (s == NCU_STALL_NO_INSTRUCTION && before + used < len && name[before + used] == 's')
            used++; /* samples: plural "no_instructions" */
        size_t rest = len - before - used;
        *source = forms[i].source;
        return rest == strlen(forms[i].after) && memcmp(name + len - rest, forms[i].after, rest) == 0
                   ? s
                   : NCU_STALL_END;
    }
    *source = NCU_STALL_LABEL;
    return starts_with(name, len, "Stall ", &before) ? stall_by_label(name + before, len - before)
                                                     : NCU_STALL_END;
}

/* NaN: no number after `words` */
static double number_after(const char *text, size_t len, const char *words) {
    const char *hit = memmem(text, len, words, strlen(words));
    char buf[NUMBER_BYTES + 1];
    if (!hit) return NAN;
    hit += strlen(words);
    size_t n = 0, left = (size_t)(text + len - hit);
    while (n < left && n < NUMBER_BYTES && (isdigit((unsigned char)hit[n]) || hit[n] == '.')) {
        buf[n] = hit[n];
        n++;
    }
    buf[n] = 0;
    return n ? strtod(buf, NULL) : NAN;
}

enum ncu_stall ncu_stall_of_rule(const char *text, size_t len, double *cycles, double *total) {
    *cycles = number_after(text, len, " spends ");
    *total = number_after(text, len, " total average of ");
    const char *hit = memmem(text, len, "cycles being stalled", 20);
    if (isnan(*cycles) || !hit) return NCU_STALL_END;
    /* The reason is in the same sentence. */
    const char *stop = memchr(hit, '.', (size_t)(text + len - hit));
    size_t n = (size_t)((stop ? stop : text + len) - hit);
    for (size_t i = 0; i < COUNTOF(stalls); i++)
        if (stalls[i].words && memmem(hit, n, stalls[i].words, strlen(stalls[i].words)))
            return (enum ncu_stall)i;
    return NCU_STALL_END;
}
