/* Growable arrays: any `struct { T *v; size_t n, cap; }`, zero-initialised; release with `free(a.v)`.
 *     struct { int *v; size_t n, cap; } ids = { 0 };
 *     vec_push(&ids, 7);
 * Not for the collector: ends the program or the guarded call when out of memory (alloc_guard.h). */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include <stddef.h>

#define vec_push(a, x) \
    ((a)->v = vec_fit((a)->v, (a)->n + 1, &(a)->cap, sizeof *(a)->v), (a)->v[(a)->n++] = (x))
#define vec_reserve(a, total) ((a)->v = vec_fit((a)->v, (total), &(a)->cap, sizeof *(a)->v))

/* Grows `v` to at least `need` elements of `elem` bytes. Updates *cap. */
void *vec_fit(void *v, size_t need, size_t *cap, size_t elem);

#endif
