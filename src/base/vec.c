#include "base/vec.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"

void *vec_fit(void *v, size_t need, size_t *cap, size_t elem) {
    if (need <= *cap) return v;
    size_t want = MAX(need, *cap > SIZE_MAX / 2 ? SIZE_MAX : *cap ? *cap * 2 : 16);
    if (want > SIZE_MAX / elem || !(v = realloc(v, want * elem)))
        die("out of memory: %zu items of %zu bytes", want, elem);
    *cap = want;
    return v;
}
