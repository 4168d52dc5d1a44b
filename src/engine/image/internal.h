/* Internal to image.c and its codecs. */
#ifndef ENGINE_IMAGE_INTERNAL_H
#define ENGINE_IMAGE_INTERNAL_H

#include "engine/image/image.h"

struct image_file {
    const uint8_t *data;
    size_t n;
    const char *what; /* name of the image in messages */
    uint64_t max_pixels;
};

/* Decoders: `out` is zeroed by the caller and may be incomplete on failure; the caller frees it. The
 * orientation is EXIF's 1..8; 1 if the file has none. */
int image_decode_png(const struct image_file *f, struct image *out, int *orientation, struct err *err);
int image_decode_jpeg(const struct image_file *f, struct image *out, int *orientation, struct err *err);

/* image_decode() with the limit f->max_pixels. */
int image_decode_limited(const struct image_file *f, struct image *out, struct err *err);

/* Fails if the image is empty or larger than f->max_pixels, or if memory is short. The pixels are
 * uninitialised. */
int image_alloc(struct image *im, uint32_t width, uint32_t height, const struct image_file *f,
                struct err *err);

/* Returns the orientation in an EXIF block (a TIFF file without the "Exif" marker), or 1 if the block is
 * invalid or has no orientation. */
int exif_orientation(const uint8_t *tiff, size_t n);

#endif
