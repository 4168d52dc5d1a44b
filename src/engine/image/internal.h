/* Between image.c and its codecs. */
#ifndef ENGINE_IMAGE_INTERNAL_H
#define ENGINE_IMAGE_INTERNAL_H

#include "engine/image/image.h"

struct image_file {
    const uint8_t *data;
    size_t n;
    const char *what; /* what messages call it */
    uint64_t max_pixels;
};

/* Decoders: `out` comes zeroed and may be left half filled on failure; the caller frees it. The orientation
 * is EXIF's 1..8, 1 when the file has none. */
int image_decode_png(const struct image_file *f, struct image *out, int *orientation, struct err *err);
int image_decode_jpeg(const struct image_file *f, struct image *out, int *orientation, struct err *err);

/* image_decode() with a limit of one's own. */
int image_decode_limited(const struct image_file *f, struct image *out, struct err *err);

/* Refuses sizes past the file's limit and shortage of memory with a message; pixels are not set. */
int image_alloc(struct image *im, uint32_t width, uint32_t height, const struct image_file *f,
                struct err *err);

/* The orientation in a TIFF-shaped EXIF block (without the "Exif" mark); 1 for anything odd. */
int exif_orientation(const uint8_t *tiff, size_t n);

#endif
