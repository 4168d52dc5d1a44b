/* The string table of a writer: text to number, in a fixed amount of memory. Thread-safe. */
#ifndef TRACE_WRITER_STRINGS_H
#define TRACE_WRITER_STRINGS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

struct writer_string {
    uint64_t hash;
    uint32_t offset, len; /* in writer_strings.text */
};

struct writer_strings {
    pthread_mutex_t lock;
    const lock_limit *limit; /* deadline for waiting on the lock */
    uint8_t *memory;         /* one mapping: slots, entries, text; unused pages take no memory */
    size_t memory_bytes;
    uint32_t *slots; /* open addressing; values are string numbers; 0: empty slot */
    uint32_t nslots, max_strings;
    struct writer_string *entries; /* index: string number - 1 */
    char *text;
    uint32_t text_cap, text_used;
    uint32_t n;
    uint64_t refused; /* texts rejected because the memory was full */
};

bool writer_strings_init(struct writer_strings *t, size_t memory_bytes, const lock_limit *limit);
void writer_strings_free(struct writer_strings *t);
/* Returns 0 for an empty text, or if the memory is full or the lock cannot be acquired. */
uint32_t writer_strings_id(struct writer_strings *t, const char *text, size_t len);
/* Returns false if the lock cannot be acquired. */
bool writer_strings_count(struct writer_strings *t, uint32_t *n);

#endif
