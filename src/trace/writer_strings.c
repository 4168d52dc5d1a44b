#include "trace/writer_strings.h"

#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "trace/layout.h"

/* expected average length, determines the number of slots; kernel names have 20 to 2000 bytes */
#define BYTES_PER_STRING 64

bool writer_strings_init(struct writer_strings *t, size_t memory_bytes, const lock_limit *limit) {
    uint32_t nslots = 1024;
    memset(t, 0, sizeof *t);
    t->limit = limit;
    while ((size_t)nslots * BYTES_PER_STRING / 2 < memory_bytes && nslots < 1u << 24) nslots *= 2;
    t->nslots = nslots;
    t->max_strings = nslots / 2;
    size_t slots_bytes = (size_t)nslots * sizeof *t->slots;
    size_t entries_bytes = (size_t)t->max_strings * sizeof *t->entries;
    t->text_cap = (uint32_t)(memory_bytes < UINT32_MAX ? memory_bytes : UINT32_MAX);
    t->memory_bytes = slots_bytes + entries_bytes + t->text_cap;
    t->memory = mmap(NULL, t->memory_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (t->memory == MAP_FAILED) {
        t->memory = NULL;
        return false;
    }
    t->slots = (void *)t->memory;
    t->entries = (void *)(t->memory + slots_bytes);
    t->text = (char *)t->memory + slots_bytes + entries_bytes;
    pthread_mutex_init(&t->lock, NULL);
    return true;
}

void writer_strings_free(struct writer_strings *t) {
    if (!t->memory) return;
    munmap(t->memory, t->memory_bytes);
    pthread_mutex_destroy(&t->lock);
    t->memory = NULL;
}

static uint32_t add_string(struct writer_strings *t, uint32_t slot, const char *text, size_t len,
                           uint64_t hash) {
    if (t->n == t->max_strings || len > t->text_cap - t->text_used) {
        t->refused++;
        return 0;
    }
    memcpy(t->text + t->text_used, text, len);
    t->entries[t->n] = (struct writer_string){ hash, t->text_used, (uint32_t)len };
    t->text_used += (uint32_t)len;
    return t->slots[slot] = ++t->n;
}

static uint32_t find_or_add(struct writer_strings *t, const char *text, size_t len, uint64_t hash) {
    for (uint32_t i = (uint32_t)hash & (t->nslots - 1);; i = (i + 1) & (t->nslots - 1)) {
        uint32_t id = t->slots[i];
        if (!id) return add_string(t, i, text, len, hash);
        const struct writer_string *e = &t->entries[id - 1];
        if (e->hash == hash && e->len == len && memcmp(t->text + e->offset, text, len) == 0) return id;
    }
}

uint32_t writer_strings_id(struct writer_strings *t, const char *text, size_t len) {
    if (len == 0) return 0;
    if (len > TRACE_MAX_STRING) len = TRACE_MAX_STRING;
    uint64_t hash = hash_bytes(text, len);
    if (!lock_take(&t->lock, t->limit)) return 0;
    uint32_t id = find_or_add(t, text, len, hash);
    pthread_mutex_unlock(&t->lock);
    return id;
}

bool writer_strings_count(struct writer_strings *t, uint32_t *n) {
    if (!lock_take(&t->lock, t->limit)) return false;
    *n = t->n;
    pthread_mutex_unlock(&t->lock);
    return true;
}
