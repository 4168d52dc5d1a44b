/* Binary search in any sorted data.
 *     static bool is_before(const void *key, size_t i) { return table[i] < *(const int *)key; }
 *     size_t at = bisect(0, n, is_before, &key);    -- the first row that is not before the key; n: none */
#ifndef BASE_BISECT_H
#define BASE_BISECT_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the first i in [lo, hi) for which before(arg, i) is false; hi: none. `before` must not become true
 * again after it was false. */
static inline size_t bisect(size_t lo, size_t hi, bool (*before)(const void *arg, size_t i),
                            const void *arg) {
    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        if (before(arg, middle))
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

#endif
