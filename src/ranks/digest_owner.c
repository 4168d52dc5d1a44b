/* Allocates and frees digests, computes the match keys of their operations and sorts their collectives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/util.h"
#include "base/vec.h"
#include "ranks/digest.h"

struct digest_owner {
    void **v;
    size_t n, cap;
};

struct rank_digest *digest_new(void) {
    struct rank_digest *d = xcalloc(1, sizeof *d);
    d->owner = xcalloc(1, sizeof(struct digest_owner));
    d->rank = d->world_size = d->local_rank = d->node_rank = d->pid = RANK_NONE;
    d->timeline_ns = d->unrecorded_ns = d->hidden_ns = NAN;
    d->sm_mhz_mean = d->throttled_ns = d->joules = NAN;
    d->every = 1;
    return d;
}

void *digest_keep(struct rank_digest *d, void *block) {
    struct digest_owner *o = d->owner;
    vec_push(o, block);
    return block;
}

void *digest_alloc(struct rank_digest *d, size_t n, size_t elem_bytes) {
    return digest_keep(d, xcalloc(n + 1, elem_bytes));
}

const char *digest_text(struct rank_digest *d, const char *text) {
    return text && *text ? digest_keep(d, xstrdup(text)) : NULL;
}

void rank_digest_free(struct rank_digest *d) {
    if (!d) return;
    struct digest_owner *o = d->owner;
    for (size_t i = 0; i < o->n; i++) free(o->v[i]);
    free(o->v);
    free(o);
    free(d);
}

/* Keys are computed for every digest that is made or read, and are not written to files. */
static uint64_t match_of(const struct digest_operation *op) {
    /* both ends of a pair have the same key, although their operations have different names */
    const char *name = op->pair ? "pair" : op->op ? op->op : "";
    const uint64_t key[] = { op->communicator, hash_bytes(name, strlen(name)), op->pair ? op->from_rank : 0,
                             op->pair ? op->to_rank : 0 };
    return hash_bytes(key, sizeof key);
}

struct sorted {
    uint64_t match;
    struct digest_collective c;
};

static int by_match(const void *pa, const void *pb) {
    const struct sorted *a = pa, *b = pb;
    if (a->match != b->match) return a->match < b->match ? -1 : 1;
    if (a->c.sequence != b->c.sequence) return a->c.sequence < b->c.sequence ? -1 : 1;
    return (a->c.start_ns > b->c.start_ns) - (a->c.start_ns < b->c.start_ns);
}

void digest_finish(struct rank_digest *d) {
    for (size_t i = 0; i < d->noperations; i++) d->operations[i].match = match_of(&d->operations[i]);
    struct sorted *v = xmalloc((d->ncollectives + 1) * sizeof *v);
    for (size_t i = 0; i < d->ncollectives; i++)
        v[i] = (struct sorted){ d->operations[d->collectives[i].operation].match, d->collectives[i] };
    if (d->ncollectives) qsort(v, d->ncollectives, sizeof *v, by_match);
    for (size_t i = 0; i < d->ncollectives; i++) d->collectives[i] = v[i].c;
    free(v);
}
