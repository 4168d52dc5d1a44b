#include "serve/http_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"

/* A key has WAYS possible slots, in the set that its hash selects. With one slot per key, a few of a hundred
 * popular pages would share a slot and replace each other on every request. */
#define SETS 1024
#define WAYS 4
#define SLOTS (SETS * WAYS)

struct http_cache {
    pthread_mutex_t lock;
    size_t bytes, max_bytes;
    size_t hand;    /* the slot that is emptied next if the cache is full */
    uint64_t clock; /* number of reads and writes so far */
    struct {
        char *key;
        int64_t revision;
        char *body;
        size_t n;
        const char *type;
        uint64_t used; /* value of `clock` at its last use */
    } slots[SLOTS];
};

struct http_cache *http_cache_open(size_t max_bytes) {
    struct http_cache *c = xcalloc(1, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    c->max_bytes = max_bytes;
    return c;
}

static void drop(struct http_cache *c, size_t i) {
    c->bytes -= c->slots[i].n;
    free(c->slots[i].key);
    free(c->slots[i].body);
    memset(&c->slots[i], 0, sizeof c->slots[i]);
}

void http_cache_close(struct http_cache *c) {
    if (!c) return;
    for (size_t i = 0; i < SLOTS; i++) drop(c, i);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static size_t first_slot(const char *key) { return hash_bytes(key, strlen(key)) % SETS * WAYS; }

bool http_cache_get(struct http_cache *c, const char *key, int64_t revision, struct strbuf *out,
                    const char **type) {
    size_t i = first_slot(key), end = i + WAYS;
    pthread_mutex_lock(&c->lock);
    while (i < end &&
           !(c->slots[i].key && c->slots[i].revision == revision && strcmp(c->slots[i].key, key) == 0))
        i++;
    bool found = i < end;
    if (found) {
        strbuf_add(out, c->slots[i].body, c->slots[i].n);
        *type = c->slots[i].type;
        c->slots[i].used = ++c->clock;
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

/* Returns the slot for a new answer: the slot of the same key, or the one whose last use is longest ago; an
 * empty slot was never used. */
static size_t choose_slot(const struct http_cache *c, const char *key) {
    size_t first = first_slot(key), best = first;
    for (size_t i = first; i < first + WAYS; i++) {
        if (c->slots[i].key && strcmp(c->slots[i].key, key) == 0) return i;
        if (c->slots[i].used < c->slots[best].used) best = i;
    }
    return best;
}

void http_cache_put(struct http_cache *c, const char *key, int64_t revision, const void *body, size_t n,
                    const char *type) {
    if (n > c->max_bytes / 8) return;
    char *copy = xmalloc(n + 1), *key_copy = xstrdup(key);
    memcpy(copy, body, n);
    pthread_mutex_lock(&c->lock);
    size_t i = choose_slot(c, key);
    drop(c, i);
    while (c->bytes + n > c->max_bytes) {
        drop(c, c->hand);
        c->hand = (c->hand + 1) % SLOTS;
    }
    c->slots[i].key = key_copy;
    c->slots[i].revision = revision;
    c->slots[i].body = copy;
    c->slots[i].n = n;
    c->slots[i].type = type;
    c->slots[i].used = ++c->clock;
    c->bytes += n;
    pthread_mutex_unlock(&c->lock);
}
