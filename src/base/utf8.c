#include "base/utf8.h"

static uint32_t smallest_for_length[] = { 0, 0, 0x80, 0x800, 0x10000 };

uint32_t utf8_next(const char **p, const char *end) {
    const unsigned char *s = (const unsigned char *)*p;
    uint32_t c = *s;
    size_t len = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
    *p += 1;
    if (len == 1) return c;
    if (len == 0 || (size_t)(end - (const char *)s) < len) return UTF8_BAD;
    c &= 0x7fu >> len;
    for (size_t i = 1; i < len; i++) {
        if (s[i] >> 6 != 2) return UTF8_BAD;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < smallest_for_length[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return UTF8_BAD;
    *p = (const char *)s + len;
    return c;
}

size_t utf8_put(uint32_t c, char out[4]) {
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (len == 1) {
        out[0] = (char)c;
        return 1;
    }
    for (size_t i = len - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00u >> len & 0xf0) | c);
    return len;
}

bool utf8_valid(const char *s, size_t n) {
    const char *p = s, *end = s + n;
    while (p < end)
        if (utf8_next(&p, end) == UTF8_BAD) return false;
    return true;
}

bool utf8_is_unsafe(uint32_t c) {
    if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == UTF8_BAD) return true;
    if (c == 0x61c || c == 0x200e || c == 0x200f) return true; /* direction marks */
    return (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || (c >= 0xe0000 && c <= 0xe007f);
}

static bool is_wide(uint32_t c) {
    return (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
           (c >= 0xffe0 && c <= 0xffe6) || (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd);
}

static bool is_combining(uint32_t c) {
    return (c >= 0x300 && c <= 0x36f) || c == 0x200d || (c >= 0xfe00 && c <= 0xfe0f);
}

size_t utf8_width(const char *s, size_t n) {
    size_t width = 0;
    for (const char *p = s, *end = s + n; p < end;) {
        uint32_t c = utf8_next(&p, end);
        if (!is_combining(c)) width += c != UTF8_BAD && is_wide(c) ? 2 : 1;
    }
    return width;
}
