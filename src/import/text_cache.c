#include "import/text_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/vec.h"

static void clear_cache(struct text_cache *c) {
    memset(c->entries, 0, c->slots * sizeof *c->entries);
    c->texts_used = 0;
    c->count = 0;
}

static uint32_t first_slot(const struct text_cache *c, uint64_t hash) {
    return (uint32_t)(hash >> 17) & (c->slots - 1);
}

static void grow_slots(struct text_cache *c) {
    struct text_cache old = *c;
    c->slots = old.slots ? old.slots * 4 : TEXT_CACHE_SLOTS_FIRST;
    c->entries = xcalloc(c->slots, sizeof *c->entries);
    for (uint32_t i = 0; i < old.slots; i++) {
        if (!old.entries[i].hash) continue;
        uint32_t at = first_slot(c, old.entries[i].hash);
        while (c->entries[at].hash) at = (at + 1) & (c->slots - 1);
        c->entries[at] = old.entries[i];
    }
    free(old.entries);
}

uint32_t *text_cache_slot(struct text_cache *c, const char *text, size_t len, bool *known) {
    uint64_t hash = hash_bytes(text, len) | 1; /* 0 marks an empty slot */
    if (c->count >= c->slots / 2 && c->slots < TEXT_CACHE_SLOTS) grow_slots(c);
    if (c->count >= c->slots / 2 || c->texts_used + len > TEXT_CACHE_TEXT_BYTES) clear_cache(c);
    for (uint32_t i = first_slot(c, hash);; i = (i + 1) & (c->slots - 1)) {
        struct text_cache_entry *e = &c->entries[i];
        if (e->hash == hash && e->len == len && memcmp(c->texts + e->offset, text, len) == 0) {
            *known = true;
            return &e->value;
        }
        if (e->hash) continue;
        c->texts = vec_fit(c->texts, c->texts_used + len + 1, &c->texts_cap, 1);
        memcpy(c->texts + c->texts_used, text, len);
        *e = (struct text_cache_entry){ .hash = hash,
                                        .offset = (uint32_t)c->texts_used,
                                        .len = (uint32_t)len };
        c->texts_used += len;
        c->count++;
        *known = false;
        return &e->value;
    }
}

void text_cache_free(struct text_cache *c) {
    free(c->entries);
    free(c->texts);
    *c = (struct text_cache){ 0 };
}
