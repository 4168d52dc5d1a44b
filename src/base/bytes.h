/* Reads untrusted bytes with bounds checks. Numbers are little endian. A read past the end returns false and
 * does not advance.
 *     struct bytes in = { p, p + n };
 *     if (!bytes_u32(&in, &count)) return err_set(err, "ends inside the count"); */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *p, *end;
};

static inline size_t bytes_left(const struct bytes *b) { return (size_t)(b->end - b->p); }

static inline bool bytes_copy(struct bytes *b, void *out, size_t n) {
    if (n > bytes_left(b)) return false;
    memcpy(out, b->p, n);
    b->p += n;
    return true;
}

static inline bool bytes_u8(struct bytes *b, uint8_t *out) { return bytes_copy(b, out, 1); }
static inline bool bytes_u16(struct bytes *b, uint16_t *out) { return bytes_copy(b, out, 2); }
static inline bool bytes_u32(struct bytes *b, uint32_t *out) { return bytes_copy(b, out, 4); }
static inline bool bytes_u64(struct bytes *b, uint64_t *out) { return bytes_copy(b, out, 8); }

/* Sets *out to the next n bytes. */
static inline bool bytes_slice(struct bytes *b, size_t n, struct bytes *out) {
    if (n > bytes_left(b)) return false;
    *out = (struct bytes){ b->p, b->p + n };
    b->p += n;
    return true;
}

/* LEB128: seven bits per byte, low bits first, at most ten bytes and 64 bits. */
static inline bool bytes_varint(struct bytes *b, uint64_t *out) {
    uint64_t v = 0;
    const uint8_t *p = b->p;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (p == b->end) return false;
        uint8_t c = *p++;
        if (shift == 63 && c > 1) return false;
        v |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80) {
            b->p = p;
            *out = v;
            return true;
        }
    }
    return false;
}

static inline uint8_t *bytes_put_varint(uint8_t *p, uint64_t v) { /* writes at most 10 bytes */
    for (; v >= 0x80; v >>= 7) *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    return p;
}

static inline uint64_t zigzag(int64_t v) { return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0); }
static inline int64_t unzigzag(uint64_t v) { return (int64_t)(v >> 1) ^ -(int64_t)(v & 1); }

#endif
