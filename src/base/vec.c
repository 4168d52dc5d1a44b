#include "base/vec.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/alloc_guard.h"
#include "base/util.h"

void *vec_fit(void *v, size_t need, size_t *cap, size_t elem) {
    if (need <= *cap) return v;
    size_t want = MAX(need, *cap > SIZE_MAX / 2 ? SIZE_MAX : *cap ? *cap * 2 : 16);
    if (want > SIZE_MAX / elem) alloc_failed(SIZE_MAX);
    void *grown = alloc_guard_refuses() ? NULL : realloc(v, want * elem);
    if (!grown) alloc_failed(want * elem);
    *cap = want;
    return grown;
}
