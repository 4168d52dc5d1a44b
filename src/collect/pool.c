#include "collect/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "collect/cupti.h"
#include "collect/host.h"
#include "collect/output.h"

#define SMALL_BYTES (64u << 10)
/* First CUPTI version that accepts NULL instead of a buffer; older versions crash. If the pool is empty,
 * older versions get a buffer of FALLBACK_BYTES. */
#define MIN_VERSION_NO_BUFFER 27
#define FALLBACK_BYTES 8192

/* Buffers come from malloc(), because another tool that takes over CUPTI frees the buffers that CUPTI still
 * has. */
struct slot {
    uint8_t *buffer;
    size_t bytes;
    bool lent;
};
static struct {
    pthread_mutex_t lock;
    struct slot *slots;
    unsigned n;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static unsigned large_limit(void) {
    return (unsigned)(settings.memory_bytes / 16 * 3 / settings.buffer_bytes);
}
static unsigned small_limit(void) { return (unsigned)(settings.memory_bytes / 16 / SMALL_BYTES); }

static struct slot *slot_make(size_t bytes) {
    struct slot *grown = realloc(pool.slots, (pool.n + 1) * sizeof *grown);
    if (grown) pool.slots = grown;
    uint8_t *b = grown ? malloc(bytes) : NULL;
    if (!b) return NULL;
    pool.slots[pool.n] = (struct slot){ b, bytes, false };
    return &pool.slots[pool.n++];
}

/* Returns a free buffer of this size, or a new one if there are fewer than `limit`. NULL: none. */
static struct slot *slot_find(size_t bytes, unsigned limit) {
    unsigned count = 0;
    for (struct slot *p = pool.slots; p < pool.slots + pool.n; p++) {
        if (p->bytes != bytes) continue;
        if (!p->lent) return p;
        count++;
    }
    return count < limit ? slot_make(bytes) : NULL;
}

uint8_t *pool_take(size_t *bytes) {
    uint8_t *b = NULL;
    bool locked = lock_take(&pool.lock, &host_locks);
    struct slot *p = locked ? slot_find(settings.buffer_bytes, large_limit()) : NULL;
    if (!p && locked) p = slot_find(SMALL_BYTES, small_limit());
    if (p) {
        p->lent = true;
        b = p->buffer;
        *bytes = p->bytes;
    }
    if (locked) pthread_mutex_unlock(&pool.lock);
    if (!b && cupti.version < MIN_VERSION_NO_BUFFER) b = malloc(*bytes = FALLBACK_BYTES);
    if (!b) *bytes = 0;
    return b;
}

void pool_give(uint8_t *b) {
    bool ours = false;
    if (!lock_take(&pool.lock, &host_locks)) return;
    for (unsigned i = 0; i < pool.n && !ours; i++) {
        ours = pool.slots[i].buffer == b;
        if (ours) pool.slots[i].lent = false;
    }
    pthread_mutex_unlock(&pool.lock);
    if (!ours) free(b);
}

void pool_reclaim(void) {
    if (!lock_take(&pool.lock, &host_locks)) return;
    for (unsigned i = 0; i < pool.n; i++) pool.slots[i].lent = false;
    pthread_mutex_unlock(&pool.lock);
}

void pool_after_fork(void) {
    pthread_mutex_init(&pool.lock, NULL);
    for (unsigned i = 0; i < pool.n; i++) pool.slots[i].lent = false;
}
