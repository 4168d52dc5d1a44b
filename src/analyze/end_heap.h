/* Heap of the work that runs at the current moment of a walk over a device, ordered by its end:
 *     end_heap_push(&heap, (struct running){ .end_ns = end, .id = kernel });
 *     while (heap.n && heap.v[0].end_ns <= now_ns) { struct running r = end_heap_pop(&heap); ... }
 *     free(heap.v); */
#ifndef ANALYZE_END_HEAP_H
#define ANALYZE_END_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Time that a piece of work owns (sharing.h). */
struct shares {
    double ns;
    double alone_ns;   /* no other work ran */
    double copying_ns; /* no kernel ran */
    double exposed_ns; /* communication kernels ran and no other kernel */
};
struct running {
    uint64_t end_ns;
    struct shares sums; /* of the walk when this work started */
    uint32_t id;        /* a kernel, a copy or an occurrence */
    bool is_kernel, communicates;
    uint8_t copy_kind; /* enum trace_copy_kind */
};
struct end_heap { /* v[0] ends first */
    struct running *v;
    size_t n, cap;
};
void end_heap_push(struct end_heap *h, struct running r);
/* removes the work that ends first; the heap must not be empty */
struct running end_heap_pop(struct end_heap *h);

#endif
