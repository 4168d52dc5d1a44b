/* Between image.c and its codecs. */
#ifndef ENGINE_IMAGE_INTERNAL_H
#define ENGINE_IMAGE_INTERNAL_H

#include "engine/image.h"

/* Decoders: `out` comes zeroed and may be left half filled on failure; the caller frees it. The orientation
 * is EXIF's 1..8, 1 when the file has none. */
int image_decode_png(const uint8_t *data, size_t n, const char *what, struct image *out, int *orientation,
                     struct err *err);
int image_decode_jpeg(const uint8_t *data, size_t n, const char *what, struct image *out, int *orientation,
                      struct err *err);

/* Refuses sizes past IMAGE_MAX_PIXELS and shortage of memory with a message; pixels are not set. */
int image_alloc(struct image *im, uint32_t width, uint32_t height, const char *what, struct err *err);

/* The orientation in a TIFF-shaped EXIF block (without the "Exif" mark); 1 for anything odd. */
int exif_orientation(const uint8_t *tiff, size_t n);

#endif
