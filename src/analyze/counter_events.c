#include "analyze/counter_events.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

static void add(struct counter_events *e, uint64_t start_ns, uint64_t end_ns, uint32_t class) {
    if (end_ns > start_ns) vec_push(e, ((struct counter_event){ start_ns, end_ns, class }));
}

/* Adds the parts of copies that no kernel overlaps. Kernels and copies are sorted by start. */
static void add_copies(const struct timeline *tl, const struct timeline_device *d, uint32_t first_class,
                       struct counter_events *e) {
    const uint64_t *start = tl->kernels.start_ns + d->first_kernel,
                   *end = tl->kernels.end_ns + d->first_kernel;
    uint64_t busy_until = 0; /* latest end of the kernels that start before the current copy */
    size_t next = 0;
    for (size_t i = d->first_copy; i < d->first_copy + d->copy_count; i++) {
        uint64_t from = tl->copies.start_ns[i], to = tl->copies.end_ns[i];
        uint32_t class = first_class + tl->copies.kind[i];
        for (; next < d->kernel_count && start[next] <= from; next++) busy_until = MAX(busy_until, end[next]);
        from = MAX(from, busy_until);
        for (size_t k = next; k < d->kernel_count && start[k] < to; k++) {
            if (start[k] > from) add(e, from, start[k], class);
            from = MAX(from, end[k]);
        }
        add(e, from, to, class);
    }
}

static int by_start(const void *a, const void *b) {
    uint64_t x = ((const struct counter_event *)a)->start_ns, y = ((const struct counter_event *)b)->start_ns;
    return (x > y) - (x < y);
}

static void make_columns(struct counter_events *e) {
    size_t n = MAX(e->n, 1);
    e->start_ns = xmalloc(n * sizeof *e->start_ns);
    e->end_ns = xmalloc(n * sizeof *e->end_ns);
    e->class_of = xmalloc(n * sizeof *e->class_of);
    for (size_t i = 0; i < e->n; i++) {
        e->start_ns[i] = e->v[i].start_ns;
        e->end_ns[i] = e->v[i].end_ns;
        e->class_of[i] = e->v[i].class;
    }
}

void counter_events_make(const struct timeline *tl, const struct timeline_device *d,
                         const uint32_t *class_of_kernel, uint32_t first_copy_class,
                         struct counter_events *out) {
    *out = (struct counter_events){ 0 };
    vec_reserve(out, d->kernel_count + d->copy_count + 1);
    for (size_t i = 0; i < d->kernel_count; i++)
        add(out, tl->kernels.start_ns[d->first_kernel + i], tl->kernels.end_ns[d->first_kernel + i],
            class_of_kernel[i]);
    size_t nkernels = out->n;
    add_copies(tl, d, first_copy_class, out);
    if (out->n > nkernels) qsort(out->v, out->n, sizeof *out->v, by_start);
    make_columns(out);
    free(out->v);
    out->v = NULL;
}

void counter_events_free(struct counter_events *e) {
    free(e->start_ns);
    free(e->end_ns);
    free(e->class_of);
}
