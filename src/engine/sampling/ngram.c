/* A hash table contains every (n-1)-gram of the sequence. Positions with the same hash are chained from
 * the newest to the oldest. To find the banned ids of a step, ngram_ban() follows the chain of the last
 * n-1 tokens. */
#include "engine/sampling/ngram.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/vec.h"

#define NONE UINT32_MAX
#define FIRST_BUCKETS 1024u

struct ngram {
    uint32_t n, window;
    uint32_t *allow;
    size_t nallow;
    struct {
        uint32_t *v;
        size_t n, cap;
    } ids;
    /* link.v[i]: the next older position whose gram has the same hash as the gram before token i; NONE:
     * end of the chain */
    struct {
        uint32_t *v;
        size_t n, cap;
    } link;
    uint32_t *head; /* [buckets]: newest position whose preceding gram has this hash */
    size_t buckets; /* power of two */
};

struct ngram *ngram_open(const struct ngram_rule *rule) {
    struct ngram *g = xcalloc(1, sizeof *g);
    g->n = rule->n;
    g->window = rule->window;
    g->nallow = rule->nallow;
    if (rule->nallow > 0) {
        g->allow = xcalloc(rule->nallow, sizeof *g->allow);
        memcpy(g->allow, rule->allow, rule->nallow * sizeof *g->allow);
    }
    g->buckets = FIRST_BUCKETS;
    g->head = xmalloc(g->buckets * sizeof *g->head);
    ngram_reset(g);
    return g;
}

void ngram_close(struct ngram *g) {
    if (!g) return;
    free(g->allow);
    free(g->ids.v);
    free(g->link.v);
    free(g->head);
    free(g);
}

void ngram_reset(struct ngram *g) {
    g->ids.n = g->link.n = 0;
    memset(g->head, 0xff, g->buckets * sizeof *g->head);
}

/* Returns the bucket of the n-1 ids that end before position `end`. */
static size_t bucket_of(const struct ngram *g, size_t end) {
    const uint32_t *gram = g->ids.v ? g->ids.v + end - (g->n - 1) : NULL;
    uint64_t h = g->n;
    for (uint32_t i = 0; i + 1 < g->n; i++) h = hash_u64(h ^ gram[i]) + i;
    return hash_u64(h) & (g->buckets - 1);
}

static void file_gram(struct ngram *g, size_t end) {
    size_t b = bucket_of(g, end);
    g->link.v[end] = g->head[b];
    g->head[b] = (uint32_t)end;
}

static void grow_buckets(struct ngram *g, size_t want) {
    if (want <= g->buckets) return;
    size_t buckets = g->buckets;
    while (buckets < want) buckets *= 2;
    uint32_t *head = xmalloc(buckets * sizeof *head);
    free(g->head);
    g->head = head;
    g->buckets = buckets;
    memset(g->head, 0xff, g->buckets * sizeof *g->head);
    for (size_t end = g->n - 1; end < g->ids.n; end++) file_gram(g, end);
}

void ngram_reserve(struct ngram *g, size_t tokens) {
    if (g->n == 0) return;
    vec_reserve(&g->ids, tokens);
    vec_reserve(&g->link, tokens);
    grow_buckets(g, tokens);
}

/* A gram is inserted when the next token is known, because the gram bans that token. */
void ngram_push(struct ngram *g, uint32_t id) {
    if (g->n == 0) return;
    size_t at = g->ids.n;
    vec_push(&g->ids, id);
    vec_push(&g->link, NONE);
    if (g->ids.n > g->buckets) {
        grow_buckets(g, g->ids.n);
    } else if (at + 1 >= g->n) {
        file_gram(g, at);
    }
}

static bool allowed(const struct ngram *g, uint32_t id) {
    for (size_t i = 0; i < g->nallow; i++)
        if (g->allow[i] == id) return true;
    return false;
}

size_t ngram_ban(const struct ngram *g, float *logits, size_t vocab) {
    size_t len = g->ids.n, gram = g->n - 1, banned = 0;
    if (g->n == 0 || len < g->n) return 0;
    /* first position at which n-grams may start */
    size_t first = g->window > 0 && len > g->window ? len - g->window : 0;
    const uint32_t *last = g->ids.v + len - gram;
    for (uint32_t end = g->head[bucket_of(g, len)]; end != NONE; end = g->link.v[end]) {
        if (end < first + gram) break; /* the rest of the chain is older, so it is outside of the window */
        uint32_t id = g->ids.v[end];
        if (id >= vocab || memcmp(g->ids.v + end - gram, last, gram * sizeof *last) != 0) continue;
        if (allowed(g, id) || logits[id] == -INFINITY) continue;
        logits[id] = -INFINITY;
        banned++;
    }
    return banned;
}
