#include "ranks/match.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"

/* The next matchable collective of a digest. */
struct cursor {
    uint64_t match, sequence;
    uint32_t digest;
    size_t at;
};
struct match_walk {
    struct rank_digest *const *digests;
    struct cursor *heap; /* heap[0] is first by match, sequence, digest */
    size_t n;
    struct match_member *members; /* [ndigests] */
};

static bool is_before(const struct cursor *a, const struct cursor *b) {
    if (a->match != b->match) return a->match < b->match;
    if (a->sequence != b->sequence) return a->sequence < b->sequence;
    return a->digest < b->digest;
}

static void sink_down(struct match_walk *w, size_t at) {
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < w->n; child++)
            if (is_before(&w->heap[child], &w->heap[least])) least = child;
        if (least == at) return;
        struct cursor c = w->heap[at];
        w->heap[at] = w->heap[least];
        w->heap[least] = c;
        at = least;
    }
}

/* Advances the cursor to the next matchable collective, which may be the current one. Returns false at the
 * end. */
static bool read_cursor(const struct match_walk *w, struct cursor *c) {
    const struct rank_digest *d = w->digests[c->digest];
    while (c->at < d->ncollectives && !d->operations[d->collectives[c->at].operation].matchable) c->at++;
    if (c->at >= d->ncollectives) return false;
    c->match = d->operations[d->collectives[c->at].operation].match;
    c->sequence = d->collectives[c->at].sequence;
    return true;
}

struct match_walk *match_open(struct rank_digest *const *digests, size_t n) {
    struct match_walk *w = xcalloc(1, sizeof *w);
    w->digests = digests;
    w->heap = xcalloc(n + 1, sizeof *w->heap);
    w->members = xcalloc(n + 1, sizeof *w->members);
    for (size_t i = 0; i < n; i++) {
        struct cursor c = { .digest = (uint32_t)i };
        if (read_cursor(w, &c)) w->heap[w->n++] = c;
    }
    for (size_t i = w->n / 2; i-- > 0;) sink_down(w, i);
    return w;
}

static struct match_member take_first(struct match_walk *w) {
    struct cursor *c = &w->heap[0];
    struct match_member m = { c->digest, &w->digests[c->digest]->collectives[c->at] };
    c->at++;
    if (!read_cursor(w, c)) w->heap[0] = w->heap[--w->n];
    sink_down(w, 0);
    return m;
}

bool match_next(struct match_walk *w, struct match_group *g) {
    while (w->n) {
        bool twice = false;
        *g = (struct match_group){ w->heap[0].match, w->heap[0].sequence, w->members, 0 };
        while (w->n && w->heap[0].match == g->match && w->heap[0].sequence == g->sequence) {
            struct match_member m = take_first(w);
            if (g->n && w->members[g->n - 1].digest == m.digest)
                twice = true;
            else
                w->members[g->n++] = m;
        }
        if (g->n >= 2 && !twice) return true;
    }
    return false;
}

void match_close(struct match_walk *w) {
    free(w->heap);
    free(w->members);
    free(w);
}
