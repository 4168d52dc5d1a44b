#include "collect/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "collect/cupti.h"
#include "collect/output.h"

#define SMALL_BYTES (64u << 10)
#define LAST_BYTES 8192       /* where a refusal would crash CUPTI: so little that it soon asks again */
#define CAN_REFUSE_BUFFERS 27 /* the first CUPTI version that bears a refusal */

/* Buffers are what malloc() gave: a tool that takes CUPTI over frees those it finds there. */
struct place {
    uint8_t *buffer;
    size_t bytes;
    bool lent;
};
static struct {
    pthread_mutex_t lock;
    struct place *places;
    unsigned n;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static unsigned large_limit(void) {
    return (unsigned)(settings.memory_bytes / 16 * 3 / settings.buffer_bytes);
}
static unsigned small_limit(void) { return (unsigned)(settings.memory_bytes / 16 / SMALL_BYTES); }

static struct place *make(size_t bytes) {
    struct place *grown = realloc(pool.places, (pool.n + 1) * sizeof *grown);
    if (grown) pool.places = grown;
    uint8_t *b = grown ? malloc(bytes) : NULL;
    if (!b) return NULL;
    pool.places[pool.n] = (struct place){ b, bytes, false };
    return &pool.places[pool.n++];
}

/* One of this size that is not lent, made if there are fewer than `limit`. NULL: there are not. */
static struct place *find(size_t bytes, unsigned limit) {
    unsigned made = 0;
    for (struct place *p = pool.places; p < pool.places + pool.n; p++) {
        if (p->bytes != bytes) continue;
        if (!p->lent) return p;
        made++;
    }
    return made < limit ? make(bytes) : NULL;
}

uint8_t *pool_take(size_t *bytes) {
    uint8_t *b = NULL;
    pthread_mutex_lock(&pool.lock);
    struct place *p = find(settings.buffer_bytes, large_limit());
    if (!p) p = find(SMALL_BYTES, small_limit());
    if (p) {
        p->lent = true;
        b = p->buffer;
        *bytes = p->bytes;
    }
    pthread_mutex_unlock(&pool.lock);
    if (!b && cupti.version < CAN_REFUSE_BUFFERS) b = malloc(*bytes = LAST_BYTES);
    if (!b) *bytes = 0;
    return b;
}

void pool_give(uint8_t *b) {
    bool ours = false;
    pthread_mutex_lock(&pool.lock);
    for (unsigned i = 0; i < pool.n && !ours; i++) {
        ours = pool.places[i].buffer == b;
        if (ours) pool.places[i].lent = false;
    }
    pthread_mutex_unlock(&pool.lock);
    if (!ours) free(b);
}

void pool_reclaim(void) {
    pthread_mutex_lock(&pool.lock);
    for (unsigned i = 0; i < pool.n; i++) pool.places[i].lent = false;
    pthread_mutex_unlock(&pool.lock);
}

void pool_after_fork(void) { pthread_mutex_init(&pool.lock, NULL); }
