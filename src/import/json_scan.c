#include "import/json_scan.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* bit i: byte i */
struct block {
    uint64_t quote, backslash, open, close;
};

/* Bit i of the result is the parity of bits 0 to i: for quotes, 1 inside strings and at opening quotes. */
static inline uint64_t prefix_xor(uint64_t x) {
    for (int shift = 1; shift < 64; shift <<= 1) x ^= x << shift;
    return x;
}

/* Removes escaped quotes from `quote`. A backslash may itself be escaped. */
static inline uint64_t unescaped_quotes(struct json_skip *s, uint64_t quote, uint64_t backslash) {
    uint64_t escaped = s->escaped;
    backslash &= ~escaped;
    s->escaped = 0;
    while (backslash) {
        uint64_t bit = backslash & -backslash;
        backslash &= ~bit;
        if (bit >> 63) {
            s->escaped = 1;
            break;
        }
        escaped |= bit << 1;
        backslash &= ~(bit << 1);
    }
    return quote & ~escaped;
}

/* Returns the number of bytes up to the bracket at which the depth becomes 0, or 64. */
static inline size_t walk(struct json_skip *s, uint64_t open, uint64_t close) {
    for (uint64_t both = open | close; both; both &= both - 1) {
        uint64_t bit = both & -both;
        if (open & bit)
            s->depth++;
        else if (--s->depth == 0)
            return (size_t)__builtin_ctzll(bit) + 1;
    }
    return 64;
}

static inline size_t take_block(struct json_skip *s, const struct block *b) {
    uint64_t quote = b->quote;
    if (b->backslash | s->escaped) quote = unescaped_quotes(s, quote, b->backslash);
    uint64_t inside = prefix_xor(quote) ^ s->in_string;
    s->in_string = 0 - (inside >> 63);
    uint64_t open = b->open & ~inside, close = b->close & ~inside;
    if (!(open | close)) return 64;
    uint64_t closes = (uint64_t)__builtin_popcountll(close);
    if (s->depth > closes) { /* cannot reach 0 */
        s->depth += (uint64_t)__builtin_popcountll(open) - closes;
        return 64;
    }
    return walk(s, open, close);
}

size_t json_skip_plain(struct json_skip *s, const char *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char c = p[i], low = (char)(c | 0x20); /* [ becomes {, ] becomes } */
        bool escaped = s->escaped;
        s->escaped = c == '\\' && !escaped;
        if (c == '"' && !escaped) s->in_string = ~s->in_string;
        if (s->in_string) continue;
        if (low == '{') s->depth++;
        if (low == '}' && --s->depth == 0) return i + 1;
    }
    return n;
}

#if defined(__x86_64__)
static inline uint64_t mask16(__m128i v, char c) {
    return (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(c)));
}

static size_t skip_sse2(struct json_skip *s, const char *p, size_t n) {
    size_t at = 0;
    for (; n - at >= 64; at += 64) {
        struct block b = { 0 };
        for (int k = 0; k < 4; k++) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + at + 16 * k));
            __m128i low = _mm_or_si128(v, _mm_set1_epi8(0x20));
            b.quote |= mask16(v, '"') << (16 * k);
            b.backslash |= mask16(v, '\\') << (16 * k);
            b.open |= mask16(low, '{') << (16 * k);
            b.close |= mask16(low, '}') << (16 * k);
        }
        size_t used = take_block(s, &b);
        if (s->depth == 0) return at + used;
    }
    return at;
}

__attribute__((target("avx2"))) static inline uint64_t mask32(__m256i v, char c) {
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_set1_epi8(c)));
}

__attribute__((target("avx2,popcnt,bmi"))) static size_t skip_avx2(struct json_skip *s, const char *p,
                                                                   size_t n) {
    size_t at = 0;
    for (; n - at >= 64; at += 64) {
        __m256i v0 = _mm256_loadu_si256((const __m256i *)(const void *)(p + at));
        __m256i v1 = _mm256_loadu_si256((const __m256i *)(const void *)(p + at + 32));
        __m256i bit = _mm256_set1_epi8(0x20);
        __m256i low0 = _mm256_or_si256(v0, bit), low1 = _mm256_or_si256(v1, bit);
        struct block b = {
            .quote = mask32(v0, '"') | mask32(v1, '"') << 32,
            .backslash = mask32(v0, '\\') | mask32(v1, '\\') << 32,
            .open = mask32(low0, '{') | mask32(low1, '{') << 32,
            .close = mask32(low0, '}') | mask32(low1, '}') << 32,
        };
        size_t used = take_block(s, &b);
        if (s->depth == 0) return at + used;
    }
    return at;
}

static size_t skip_blocks(struct json_skip *s, const char *p, size_t n) {
    static int have_avx2 = -1; /* benign race: all threads write the same value */
    if (have_avx2 < 0) have_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
    return have_avx2 ? skip_avx2(s, p, n) : skip_sse2(s, p, n);
}
#else
static size_t skip_blocks(struct json_skip *s, const char *p, size_t n) { return json_skip_plain(s, p, n); }
#endif

/* Pads the last bytes with blanks to a block of 64. Uses plain C for few bytes, or with a backslash, which
 * could escape the padding. */
static size_t skip_tail(struct json_skip *s, const char *p, size_t n) {
    if (n < 8 || n >= 64 || s->escaped || memchr(p, '\\', n)) return json_skip_plain(s, p, n);
    char block[64];
    memcpy(block, p, n);
    memset(block + n, ' ', sizeof block - n);
    size_t used = skip_blocks(s, block, sizeof block);
    return used < n ? used : n;
}

size_t json_skip(struct json_skip *s, const char *p, size_t n) {
    size_t at = 0;
    if (!s->started && n) { /* skip the opening bracket itself */
        s->started = 1;
        s->depth = 1;
        at = 1;
    }
    at += skip_blocks(s, p + at, n - at);
    if (s->depth == 0) return at;
    return at + skip_tail(s, p + at, n - at);
}
