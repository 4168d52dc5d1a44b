/* A fast 64-bit hash for tables in memory. Its values may change between versions, so files must not depend
 * on them. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t hash_u64(uint64_t x) {
    x ^= x >> 32;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

/* XOR of the two halves of a 128-bit product: mixes 16 bytes with one multiplication. */
static inline uint64_t hash_fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_bytes(const void *data, size_t n) {
    const unsigned char *p = data;
    uint64_t h = 0x243f6a8885a308d3u ^ n, w[2];
    for (; n > 16; p += 16, n -= 16) {
        memcpy(w, p, 16);
        h = hash_fold(w[0] ^ 0xa0761d6478bd642fu, w[1] ^ h);
    }
    w[0] = w[1] = 0;
    memcpy(w, p, n);
    return hash_u64(hash_fold(w[0] ^ 0xa0761d6478bd642fu, w[1] ^ h) ^ h);
}

#endif
