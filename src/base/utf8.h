/* Strict UTF-8: overlong forms, surrogates and code points past U+10FFFF are invalid. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_BAD UINT32_MAX
#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Decodes the code point at *p (*p < end) and advances *p past it. For an invalid byte, advances by one and
 * returns UTF8_BAD. */
uint32_t utf8_next(const char **p, const char *end);
/* returns the number of bytes written; 0: not a code point */
size_t utf8_put(uint32_t code_point, char out[4]);
bool utf8_valid(const char *s, size_t n);
/* Returns true for characters that affect the surrounding text: control characters, line and paragraph
 * separators, direction marks, overrides and isolates (they reverse the following text), invisible tags,
 * and UTF8_BAD. */
bool utf8_is_unsafe(uint32_t code_point);
/* returns the width in terminal columns; East Asian wide characters and emoji have 2, combining ones 0 */
size_t utf8_width(const char *s, size_t n);

/* Returns the size of the character at p in valid UTF-8; never past end. */
static inline size_t utf8_step(const char *p, const char *end) {
    unsigned char c = (unsigned char)*p;
    size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4, left = (size_t)(end - p);
    return n < left ? n : left;
}

#endif
