/* SHA-256 (FIPS 180-4). */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
};

void sha256_start(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t n);
void sha256_hex(struct sha256 *s, char out[65]); /* finishes the hash */
int sha256_file(const char *path, char out[65], uint64_t *bytes, struct err *err);

#endif
