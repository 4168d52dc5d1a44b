/* EXIF is a small TIFF file: a byte order, the offset of the first directory, entries of 12 bytes. Only
 * the orientation entry is read. */
#include <stdbool.h>

#include "engine/image/internal.h"

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT 3
#define ROW_BYTES 12u

struct tiff {
    const uint8_t *p;
    size_t n;
    bool big_endian;
};

static bool read_u16(const struct tiff *t, size_t at, uint32_t *out) {
    if (t->n < 2 || at > t->n - 2) return false;
    const uint8_t *p = t->p + at;
    *out = t->big_endian ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
    return true;
}

static bool read_u32(const struct tiff *t, size_t at, uint32_t *out) {
    uint32_t a, b;
    if (!read_u16(t, at, &a) || !read_u16(t, at + 2, &b)) return false;
    *out = t->big_endian ? a << 16 | b : b << 16 | a;
    return true;
}

int exif_orientation(const uint8_t *data, size_t n) {
    struct tiff t = { data, n, n > 0 && data[0] == 'M' };
    uint32_t order, magic, directory, rows, tag, type, value;
    if (!read_u16(&t, 0, &order) || (order != 0x4949 && order != 0x4d4d)) return 1;
    if (!read_u16(&t, 2, &magic) || magic != 42 || !read_u32(&t, 4, &directory)) return 1;
    if (!read_u16(&t, directory, &rows)) return 1;
    for (uint32_t i = 0; i < rows; i++) {
        size_t row = (size_t)directory + 2 + (size_t)i * ROW_BYTES;
        if (!read_u16(&t, row, &tag) || !read_u16(&t, row + 2, &type) || !read_u16(&t, row + 8, &value))
            return 1;
        if (tag == TAG_ORIENTATION) return type == TYPE_SHORT && value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
