/* Canonical normalisation (NFC, NFD) and white space, by tables made from the Unicode Character Database. */
#ifndef ENGINE_TOKENIZER_UNICODE_H
#define ENGINE_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/* Both append; text must be valid UTF-8. */
void unicode_nfc(const char *text, size_t n, struct strbuf *out);
void unicode_nfd(const char *text, size_t n, struct strbuf *out);
bool unicode_is_space(uint32_t c); /* White_Space */
/* The first place of [p, end) that is no white space, and the place after the last that is none. */
const char *unicode_skip_spaces(const char *p, const char *end);
const char *unicode_skip_spaces_back(const char *begin, const char *p);

/* unicode_norm_data.c. Pairs and classes are sorted by code point; `composed` are the numbers of those pairs
 * that may be put together again, sorted by (a, b). `b` is 0 where one character stands for another. */
struct unicode_pair {
    uint32_t c, a, b;
};
struct unicode_class { /* canonical combining class, never 0, of first..last */
    uint32_t first, last;
    uint8_t class;
};
extern const struct unicode_pair unicode_pairs[];
extern const size_t unicode_npairs;
extern const uint16_t unicode_composed[];
extern const size_t unicode_ncomposed;
extern const struct unicode_class unicode_classes[];
extern const size_t unicode_nclasses;

#endif
