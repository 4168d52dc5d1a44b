#include "collect/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "collect/cupti.h"
#include "collect/output.h"

#define SMALL_BYTES (64u << 10)
#define LAST_BYTES 8192       /* where a refusal would crash CUPTI: so little that it soon asks again */
#define CAN_REFUSE_BUFFERS 27 /* the first CUPTI version that bears a refusal */

static struct {
    pthread_mutex_t lock;
    void *idle;            /* large ones, a list through their first bytes */
    unsigned large, small; /* made and not freed; small ones are freed when they come back */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static unsigned large_limit(void) {
    return (unsigned)(settings.memory_bytes / 16 * 3 / settings.buffer_bytes);
}
static unsigned small_limit(void) { return (unsigned)(settings.memory_bytes / 16 / SMALL_BYTES); }

static void forget_one(unsigned *counter) {
    pthread_mutex_lock(&pool.lock);
    --*counter;
    pthread_mutex_unlock(&pool.lock);
}

uint8_t *pool_take(size_t *bytes) {
    unsigned *counter = NULL; /* of the kind that is made anew */
    pthread_mutex_lock(&pool.lock);
    uint8_t *b = pool.idle;
    *bytes = settings.buffer_bytes;
    if (b) {
        memcpy(&pool.idle, b, sizeof pool.idle);
    } else if (pool.large < large_limit()) {
        counter = &pool.large;
    } else if (pool.small < small_limit()) {
        counter = &pool.small;
        *bytes = SMALL_BYTES;
    } else {
        *bytes = cupti.version >= CAN_REFUSE_BUFFERS ? 0 : LAST_BYTES;
    }
    if (counter) ++*counter;
    pthread_mutex_unlock(&pool.lock);
    if (b || !*bytes) return b;
    b = malloc(*bytes);
    if (!b && counter) forget_one(counter);
    if (!b) *bytes = 0;
    return b;
}

void pool_give(uint8_t *b, size_t bytes) {
    if (bytes != settings.buffer_bytes) {
        if (bytes == SMALL_BYTES) forget_one(&pool.small);
        free(b);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    memcpy(b, &pool.idle, sizeof pool.idle);
    pool.idle = b;
    pthread_mutex_unlock(&pool.lock);
}

void pool_after_fork(void) { pthread_mutex_init(&pool.lock, NULL); }
