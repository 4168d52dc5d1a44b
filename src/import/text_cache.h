/* Cache from text to number, so that a repeated name costs only a hash lookup. When it is full, all entries
 * are dropped.
 *     struct text_cache c = { 0 };
 *     uint32_t *slot = text_cache_slot(&c, text, len, &known);
 *     if (!known) *slot = number_of(text);
 *     text_cache_free(&c); */
#ifndef IMPORT_TEXT_CACHE_H
#define IMPORT_TEXT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_CACHE_SLOTS_FIRST (1u << 11)
#define TEXT_CACHE_SLOTS (1u << 17)       /* at most half are used */
#define TEXT_CACHE_TEXT_BYTES (24u << 20) /* maximum size of all texts */

struct text_cache {
    struct text_cache_entry {
        uint64_t hash;
        uint32_t offset, len, value;
    } * entries;
    char *texts;
    size_t texts_used, texts_cap;
    uint32_t slots, count;
};

uint32_t *text_cache_slot(struct text_cache *c, const char *text, size_t len, bool *known);
void text_cache_free(struct text_cache *c);

#endif
