#include "import/text_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/vec.h"

static void forget(struct text_cache *c) {
    memset(c->entries, 0, TEXT_CACHE_SLOTS * sizeof *c->entries);
    c->texts_used = 0;
    c->count = 0;
}

uint32_t *text_cache_slot(struct text_cache *c, const char *text, size_t len, bool *known) {
    if (!c->entries) c->entries = xcalloc(TEXT_CACHE_SLOTS, sizeof *c->entries);
    uint64_t hash = hash_bytes(text, len) | 1; /* 0: an empty slot */
    uint32_t mask = TEXT_CACHE_SLOTS - 1;
    if (c->count >= TEXT_CACHE_SLOTS / 2 || c->texts_used + len > TEXT_CACHE_TEXT_BYTES) forget(c);
    for (uint32_t i = (uint32_t)(hash >> 17) & mask;; i = (i + 1) & mask) {
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
