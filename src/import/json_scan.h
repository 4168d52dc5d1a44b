/* Finds the end of a JSON object or array without parsing its contents, 64 bytes per step with AVX2 or SSE2.
 * Resumable, so a value may span windows. Counts brackets, but does not check that they match.
 *     struct json_skip s = JSON_SKIP_START;          -- the bytes begin at the opening bracket
 *     size_t used = json_skip(&s, p, n);             -- s.depth == 0: it ended after `used` bytes */
#ifndef IMPORT_JSON_SCAN_H
#define IMPORT_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

struct json_skip {
    uint64_t in_string; /* all ones inside a string */
    uint64_t escaped;   /* 1: next byte is escaped */
    uint64_t depth;
    int started;
};
#define JSON_SKIP_START ((struct json_skip){ 0 })

size_t json_skip(struct json_skip *s, const char *p, size_t n);
/* Plain C, for testing the fast version. */
size_t json_skip_plain(struct json_skip *s, const char *p, size_t n);

/* Bytes in p[0..n) before the first quote or backslash; n: none. */
static inline size_t json_string_run(const char *p, size_t n) {
    size_t at = 0;
#if defined(__SSE2__)
    for (; n - at >= 16; at += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + at));
        __m128i hit =
            _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
        int bits = _mm_movemask_epi8(hit);
        if (bits) return at + (size_t)__builtin_ctz((unsigned)bits);
    }
#endif
    while (at < n && p[at] != '"' && p[at] != '\\') at++;
    return at;
}

#endif
