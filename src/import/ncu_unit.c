#include "import/ncu_unit.h"

#include <stdbool.h>
#include <string.h>

#include "base/util.h"

/* "Mbyte" has factor 1e6 for base "byte", "usecond" 1e-6 for "second". */
static bool split_unit(const char *p, size_t n, const char *base, double *factor) {
    static const struct {
        const char *prefix;
        double factor;
    } prefixes[] = { { "", 1 },     { "n", 1e-9 },  { "u", 1e-6 },     { "m", 1e-3 },
                     { "K", 1e3 },  { "k", 1e3 },   { "M", 1e6 },      { "G", 1e9 },
                     { "T", 1e12 }, { "Ki", 1024 }, { "Mi", 1048576 }, { "Gi", 1073741824 } };
    size_t b = strlen(base);
    if (n < b || strncasecmp(p + n - b, base, b) != 0) return false;
    for (size_t i = 0; i < COUNTOF(prefixes); i++)
        if (strlen(prefixes[i].prefix) == n - b && memcmp(prefixes[i].prefix, p, n - b) == 0) {
            *factor = prefixes[i].factor;
            return true;
        }
    return false;
}

static bool is_time(const char *p, size_t n, double *factor) {
    return split_unit(p, n, "second", factor) || split_unit(p, n, "sec", factor) ||
           split_unit(p, n, "s", factor);
}

enum ncu_dimension ncu_unit(const char *unit, size_t len, double *factor) {
    const char *slash = memchr(unit, '/', len);
    double below;
    *factor = 1;
    if (slash) {
        size_t n = (size_t)(slash - unit);
        if (!is_time(slash + 1, len - n - 1, &below)) return NCU_PLAIN; /* inst/cycle, register/thread */
        if (split_unit(unit, n, "byte", factor) || split_unit(unit, n, "B", factor))
            return *factor /= below, NCU_BANDWIDTH;
        if (split_unit(unit, n, "cycle", factor)) return *factor /= below, NCU_FREQUENCY;
        return *factor = 1, NCU_PLAIN;
    }
    if (len == 1 && unit[0] == '%') return NCU_PERCENT;
    if (split_unit(unit, len, "byte", factor)) return NCU_BYTES;
    if (split_unit(unit, len, "hz", factor)) return NCU_FREQUENCY;
    if (is_time(unit, len, factor)) return *factor *= 1e9, NCU_TIME;
    *factor = 1;
    return NCU_PLAIN;
}
