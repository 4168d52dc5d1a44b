#include "analyze/end_heap.h"

#include "base/vec.h"

void end_heap_push(struct end_heap *h, struct running r) {
    vec_push(h, r);
    struct running *v = h->v;
    size_t i = h->n - 1;
    for (; i && v[(i - 1) / 2].end_ns > r.end_ns; i = (i - 1) / 2) v[i] = v[(i - 1) / 2];
    v[i] = r;
}

struct running end_heap_pop(struct end_heap *h) {
    struct running *v = h->v, top = v[0], last = v[--h->n];
    size_t n = h->n, i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && v[child + 1].end_ns < v[child].end_ns) child++;
        if (v[child].end_ns >= last.end_ns) break;
        v[i] = v[child];
    }
    v[i] = last;
    return top;
}
