#include "ranks/exposed.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

/* A running communication kernel. */
struct communicating {
    uint64_t end_ns;
    uint32_t collective; /* RANK_NONE: no record */
};
struct sweep {
    struct exposed *out;
    struct {
        struct communicating *v; /* sorted by start */
        size_t n, cap;
    } running;
    uint64_t settled_ns;      /* exposed parts before this time are complete */
    uint64_t computing_to_ns; /* latest end of the computing kernels so far */
};

static void add_piece(struct exposed *e, uint32_t collective, uint64_t from, uint64_t to) {
    if (collective == RANK_NONE) return;
    struct exposed_row *row = &e->rows[collective];
    row->ns += to - from;
    if (row->last != RANK_NONE && e->pieces[row->last].to_ns == from) {
        e->pieces[row->last].to_ns = to;
        return;
    }
    e->pieces = vec_fit(e->pieces, e->npieces + 1, &e->cap, sizeof *e->pieces);
    e->pieces[e->npieces] = (struct exposed_piece){ from, to, row->last };
    row->last = (uint32_t)e->npieces++;
    row->npieces++;
}

static void drop_ended(struct sweep *s, uint64_t now_ns) {
    size_t kept = 0;
    for (size_t i = 0; i < s->running.n; i++)
        if (s->running.v[i].end_ns > now_ns) s->running.v[kept++] = s->running.v[i];
    s->running.n = kept;
}

/* Assigns the exposed time before `until` to the running communication kernels. No kernel starts between the
 * last call and `until`. */
static void settle(struct sweep *s, uint64_t until) {
    uint64_t now = MAX(s->settled_ns, s->computing_to_ns);
    while (now < until) {
        drop_ended(s, now);
        if (!s->running.n) break;
        uint64_t end = MIN(s->running.v[0].end_ns, until);
        add_piece(s->out, s->running.v[0].collective, now, end);
        now = end;
    }
    s->settled_ns = MAX(s->settled_ns, until);
}

static void sweep_device(struct exposed *e, const struct timeline *tl, const struct analysis *a,
                         const struct timeline_device *d, const uint32_t *collective_of) {
    struct sweep s = { .out = e };
    for (size_t i = d->first_kernel; i < d->first_kernel + d->kernel_count; i++) {
        uint32_t row = a->shape_kernel[tl->kernels.shape[i]];
        settle(&s, tl->kernels.start_ns[i]);
        if (a->kernels[row].category != KERNEL_CATEGORY_COMMUNICATION) {
            s.computing_to_ns = MAX(s.computing_to_ns, tl->kernels.end_ns[i]);
            continue;
        }
        if (collective_of[i] != RANK_NONE) e->rows[collective_of[i]].has_kernel = true;
        vec_push(&s.running, ((struct communicating){ tl->kernels.end_ns[i], collective_of[i] }));
    }
    settle(&s, UINT64_MAX);
    free(s.running.v);
}

struct exposed *exposed_find(const struct timeline *tl, const struct analysis *a) {
    struct exposed *e = xcalloc(1, sizeof *e);
    uint32_t *collective_of = xmalloc((tl->kernels.n + 1) * sizeof *collective_of);
    e->rows = xcalloc(tl->collectives.n + 1, sizeof *e->rows);
    for (size_t i = 0; i < tl->kernels.n; i++) collective_of[i] = RANK_NONE;
    for (size_t i = 0; i < tl->collectives.n; i++) {
        uint32_t kernel = tl->collectives.kernel[i];
        e->rows[i].last = RANK_NONE;
        if (kernel != TIMELINE_NONE && collective_of[kernel] == RANK_NONE)
            collective_of[kernel] = (uint32_t)i;
    }
    for (size_t i = 0; i < tl->ndevices && tl->collectives.n; i++)
        sweep_device(e, tl, a, &tl->devices[i], collective_of);
    free(collective_of);
    return e;
}

void exposed_copy(const struct exposed *e, size_t collective, uint64_t start_ns, struct digest_piece *out) {
    const struct exposed_row *row = &e->rows[collective];
    size_t at = row->npieces;
    for (uint32_t p = row->last; p != RANK_NONE && at > 0; p = e->pieces[p].before) {
        uint64_t from = e->pieces[p].from_ns, to = e->pieces[p].to_ns;
        out[--at] =
            (struct digest_piece){ from > start_ns ? from - start_ns : 0, to > start_ns ? to - start_ns : 0 };
    }
}

void exposed_free(struct exposed *e) {
    free(e->rows);
    free(e->pieces);
    free(e);
}
