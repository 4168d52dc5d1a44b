#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/util.h"
#include "base/vec.h"

#define ARENA_BLOCK_BYTES ((size_t)64 << 10)

struct entry {
    const char *text;
    size_t len;
    uint64_t hash;
};

struct block {
    struct block *next;
    size_t used, cap;
    char data[];
};

struct intern {
    struct {
        struct entry *v;
        size_t n, cap;
    } entries;
    uint32_t *slots; /* open addressing; INTERN_NONE: empty */
    size_t nslots;
    struct block *arena; /* texts, never moved */
};

static void slots_alloc(struct intern *t, size_t n) {
    t->slots = xmalloc(n * sizeof *t->slots);
    memset(t->slots, 0xff, n * sizeof *t->slots);
    t->nslots = n;
}

struct intern *intern_open(void) {
    struct intern *t = xcalloc(1, sizeof *t);
    slots_alloc(t, 64);
    return t;
}

void intern_close(struct intern *t) {
    if (!t) return;
    for (struct block *b = t->arena, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(t->entries.v);
    free(t->slots);
    free(t);
}

static const char *arena_copy(struct intern *t, const char *text, size_t len) {
    if (!t->arena || t->arena->cap - t->arena->used < len + 1) {
        size_t cap = MAX(len + 1, ARENA_BLOCK_BYTES);
        struct block *b = xmalloc(sizeof *b + cap);
        *b = (struct block){ .next = t->arena, .cap = cap };
        t->arena = b;
    }
    char *to = t->arena->data + t->arena->used;
    memcpy(to, text, len);
    to[len] = '\0';
    t->arena->used += len + 1;
    return to;
}

/* Returns the slot of the text, or the empty slot for it. */
static size_t find_slot(const struct intern *t, const char *text, size_t len, uint64_t hash) {
    for (size_t i = hash & (t->nslots - 1);; i = (i + 1) & (t->nslots - 1)) {
        if (t->slots[i] == INTERN_NONE) return i;
        const struct entry *e = &t->entries.v[t->slots[i]];
        if (e->hash == hash && e->len == len && memcmp(e->text, text, len) == 0) return i;
    }
}

static void grow_slots(struct intern *t) {
    free(t->slots);
    slots_alloc(t, t->nslots * 2);
    for (uint32_t id = 0; id < t->entries.n; id++) {
        size_t i = t->entries.v[id].hash & (t->nslots - 1);
        while (t->slots[i] != INTERN_NONE) i = (i + 1) & (t->nslots - 1);
        t->slots[i] = id;
    }
}

uint32_t intern_id(struct intern *t, const char *text, size_t len) {
    uint64_t hash = hash_bytes(text, len);
    size_t i = find_slot(t, text, len, hash);
    if (t->slots[i] != INTERN_NONE) return t->slots[i];
    if (t->entries.n >= INTERN_NONE - 1) die("too many distinct strings: %zu", t->entries.n);
    uint32_t id = (uint32_t)t->entries.n;
    vec_push(&t->entries, ((struct entry){ arena_copy(t, text, len), len, hash }));
    t->slots[i] = id;
    if (t->entries.n * 4 > t->nslots * 3) grow_slots(t);
    return id;
}

uint32_t intern_str(struct intern *t, const char *text) { return intern_id(t, text, strlen(text)); }

uint32_t intern_find(const struct intern *t, const char *text, size_t len) {
    return t->slots[find_slot(t, text, len, hash_bytes(text, len))];
}

const char *intern_text(const struct intern *t, uint32_t id) {
    return id < t->entries.n ? t->entries.v[id].text : NULL;
}

size_t intern_len(const struct intern *t, uint32_t id) {
    return id < t->entries.n ? t->entries.v[id].len : 0;
}
uint32_t intern_count(const struct intern *t) { return (uint32_t)t->entries.n; }
