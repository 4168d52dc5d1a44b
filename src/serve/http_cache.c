#include "serve/http_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"

#define SLOTS 1024 /* one answer per slot */

struct http_cache {
    pthread_mutex_t lock;
    size_t bytes, max_bytes;
    struct {
        char *key;
        int64_t revision;
        char *body;
        size_t n;
        const char *type;
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

bool http_cache_get(struct http_cache *c, const char *key, int64_t revision, struct strbuf *out,
                    const char **type) {
    size_t i = hash_bytes(key, strlen(key)) % SLOTS;
    pthread_mutex_lock(&c->lock);
    bool found = c->slots[i].key && c->slots[i].revision == revision && strcmp(c->slots[i].key, key) == 0;
    if (found) {
        strbuf_add(out, c->slots[i].body, c->slots[i].n);
        *type = c->slots[i].type;
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

void http_cache_put(struct http_cache *c, const char *key, int64_t revision, const void *body, size_t n,
                    const char *type) {
    size_t i = hash_bytes(key, strlen(key)) % SLOTS;
    if (n > c->max_bytes / 8) return;
    char *copy = xmalloc(n + 1), *key_copy = xstrdup(key);
    memcpy(copy, body, n);
    pthread_mutex_lock(&c->lock);
    drop(c, i);
    /* A full cache is emptied, because most of its answers belong to older revisions. */
    if (c->bytes + n > c->max_bytes)
        for (size_t k = 0; k < SLOTS; k++) drop(c, k);
    c->slots[i].key = key_copy;
    c->slots[i].revision = revision;
    c->slots[i].body = copy;
    c->slots[i].n = n;
    c->slots[i].type = type;
    c->bytes += n;
    pthread_mutex_unlock(&c->lock);
}
