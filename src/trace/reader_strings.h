/* The strings of a trace by number. The numbers in string chunks ascend; a lost chunk leaves a gap. */
#ifndef TRACE_READER_STRINGS_H
#define TRACE_READER_STRINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct reader_string_run {
    uint32_t first, n;
    uint32_t *offsets, *ends; /* [n]: offsets into text; each string is followed by a NUL */
    char *text;
};

/* Largest number of strings missing because of lost or damaged chunks. Callers allocate tables by string
 * number, so that without a limit a small file could demand gigabytes. */
#define READER_STRINGS_LOST_MAX (1u << 24)

struct reader_strings {
    struct {
        struct reader_string_run *v;
        size_t n, cap;
    } runs;
    uint64_t n; /* over all runs */
    uint64_t disk_bytes;
};

int reader_strings_add(struct reader_strings *t, struct bytes raw, uint32_t count, uint32_t disk_bytes,
                       struct err *err);
const char *reader_strings_get(const struct reader_strings *t, uint32_t id, size_t *len);
/* Masks secrets in one string (base/secret.h). */
void reader_strings_mask(struct reader_strings *t, uint32_t id);
uint32_t reader_strings_end(const struct reader_strings *t);
void reader_strings_free(struct reader_strings *t);

#endif
