/* A fast 64-bit hash for tables inside one process; never written to a file. */
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

static inline uint64_t hash_bytes(const void *data, size_t n) {
    const unsigned char *p = data;
    uint64_t h = 0x243f6a8885a308d3u ^ n;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = hash_u64(h ^ w);
    }
    uint64_t tail = 0;
    memcpy(&tail, p, n);
    return hash_u64(h ^ tail);
}

#endif
