/* Strict UTF-8: overlong forms, surrogates and code points above U+10FFFF are invalid. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_BAD UINT32_MAX
#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Decodes the code point at *p (*p < end) and advances *p. For an invalid byte, advances by one and returns
 * UTF8_BAD. */
uint32_t utf8_next(const char **p, const char *end);
/* bytes written; 0: not a code point */
size_t utf8_put(uint32_t code_point, char out[4]);
bool utf8_valid(const char *s, size_t n);
/* True for characters that affect the surrounding text: control characters, line and paragraph separators,
 * direction marks, overrides and isolates, invisible tags, and UTF8_BAD. */
bool utf8_is_unsafe(uint32_t code_point);
/* Terminal columns: 2 for East Asian wide characters and emoji, 0 for combining characters. */
size_t utf8_width(const char *s, size_t n);

/* Largest n of at most `most` at which the text can be cut without splitting a character; `most` if the text
 * is not UTF-8 there. The text is longer than `most`. */
static inline size_t utf8_cut(const char *text, size_t most) {
    for (size_t n = most; n && most - n < 4; n--) /* a character has at most four bytes */
        if (((unsigned char)text[n] & 0xc0) != 0x80) return n;
    return most;
}

/* Size of the character at p in valid UTF-8, never past end. */
static inline size_t utf8_step(const char *p, const char *end) {
    unsigned char c = (unsigned char)*p;
    size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4, left = (size_t)(end - p);
    return n < left ? n : left;
}

#endif
