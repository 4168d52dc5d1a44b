#include "analyze/sharing.h"

#include <stdlib.h>

static void advance(struct sharing *s, uint64_t to_ns) {
    if (s->running.n) {
        double ns = (double)(to_ns - s->now_ns), each = ns / (double)s->running.n;
        s->sums.ns += each;
        if (s->running.n == 1) s->sums.alone_ns += ns;
        if (!s->kernels)
            s->sums.copying_ns += each;
        else if (s->kernels == s->communicating)
            s->sums.exposed_ns += each;
    }
    s->now_ns = to_ns;
}

void sharing_start(struct sharing *s, uint64_t start_ns, struct running r) {
    advance(s, start_ns);
    r.sums = s->sums;
    s->kernels += r.is_kernel;
    s->communicating += r.communicates;
    end_heap_push(&s->running, r);
}

bool sharing_end(struct sharing *s, uint64_t time_ns, struct running *r, struct shares *owned) {
    if (!s->running.n || s->running.v[0].end_ns > time_ns) return false;
    advance(s, s->running.v[0].end_ns);
    *r = end_heap_pop(&s->running);
    s->kernels -= r->is_kernel;
    s->communicating -= r->communicates;
    *owned =
        (struct shares){ s->sums.ns - r->sums.ns, s->sums.alone_ns - r->sums.alone_ns,
                         s->sums.copying_ns - r->sums.copying_ns, s->sums.exposed_ns - r->sums.exposed_ns };
    if (!s->running.n) s->sums = (struct shares){ 0 }; /* keeps the sums small to avoid rounding errors */
    return true;
}

void sharing_free(struct sharing *s) { free(s->running.v); }
