/* Questions about single words. */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* `text` has n characters. */
static inline bool words_end_with(const char *text, size_t n, const char *ending) {
    size_t k = strlen(ending);
    return n >= k && memcmp(text + n - k, ending, k) == 0;
}

static inline bool words_has(const char *const *words, size_t n, const char *word) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i], word) == 0) return true;
    return false;
}

#endif
