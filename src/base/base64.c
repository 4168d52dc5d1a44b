#include "base/base64.h"

#include <stdint.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(const void *data, size_t n, char *out) {
    const unsigned char *p = data;
    char *o = out;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t w = (uint32_t)p[i] << 16;
        if (i + 1 < n) w |= (uint32_t)p[i + 1] << 8;
        if (i + 2 < n) w |= p[i + 2];
        *o++ = digits[w >> 18];
        *o++ = digits[w >> 12 & 63];
        *o++ = i + 1 < n ? digits[w >> 6 & 63] : '=';
        *o++ = i + 2 < n ? digits[w & 63] : '=';
    }
    return (size_t)(o - out);
}

/* -1: not a base64 digit */
static int digit_value(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(const char *text, size_t n, void *out, size_t *bytes) {
    unsigned char *o = out;
    size_t padding = n > 1 && text[n - 1] == '=' ? 1 + (text[n - 2] == '=') : 0;
    *bytes = 0;
    if (n % 4) return false;
    for (size_t i = 0; i < n; i += 4) {
        uint32_t w = 0;
        size_t given = i + 4 == n ? 4 - padding : 4;
        for (size_t k = 0; k < 4; k++) {
            int v = k < given ? digit_value(text[i + k]) : 0;
            if (v < 0) return false;
            w = w << 6 | (uint32_t)v;
        }
        for (size_t k = 0; k + 1 < given; k++) o[(*bytes)++] = (unsigned char)(w >> (16 - 8 * k));
    }
    return true;
}
