/* 8-bit RGB images: reads PNG and JPEG in upright orientation, and resizes with Pillow's arithmetic.
 *     struct image im;
 *     if (image_load(path, &im, &err) < 0) ...
 *     image_free(&im);
 * Functions that create an image leave `out` zeroed if they fail. */
#ifndef ENGINE_IMAGE_IMAGE_H
#define ENGINE_IMAGE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define IMAGE_MAX_PIXELS 178956970u /* larger images are rejected before decoding; Pillow's limit */
#define IMAGE_MAX_FILE_BYTES (512u << 20)

struct image {
    int width, height; /* pixels, each at least 1 */
    uint8_t *rgb;      /* [height][width][3] */
};

/* The format is detected by content, not by name. EXIF orientation is applied; alpha is dropped, not
 * composited; palettes, grey and 16 bits become 8-bit RGB as with Pillow's convert("RGB"). A truncated file
 * is an error. */
int image_load(const char *path, struct image *out, struct err *err);
int image_decode(const void *data, size_t n, const char *what, struct image *out, struct err *err);
void image_init(struct image *im, int width, int height, uint8_t grey); /* out of memory: like xmalloc() */
void image_free(struct image *im);

/* Bicubic resize, bit for bit like Pillow's Image.resize(..., BICUBIC) on 8-bit pixels. Sides are at least
 * 1. Fails if memory is short, if the result or the intermediate image (new width, old height) has more
 * than IMAGE_MAX_PIXELS, or if a side is too long for the table of weights. */
int image_resize(const struct image *in, int width, int height, struct image *out, struct err *err);
/* Like ImageOps.pad: scales to the largest size with the same aspect ratio that fits side x side, centred
 * on grey 127. */
int image_fit_pad(const struct image *in, int side, struct image *out, struct err *err);
/* Copies the part [x, x+width) x [y, y+height), which must be inside of the image. */
void image_crop(const struct image *in, int x, int y, int width, int height, struct image *out);

int image_write_jpeg(const char *path, const struct image *im, int quality, struct err *err);

#endif
