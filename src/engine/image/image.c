#include "engine/image/image.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "engine/image/internal.h"

#define PNG_MARK "\x89PNG\r\n\x1a\n"
#define PNG_MARK_BYTES 8u
#define JPEG_MARK "\xff\xd8\xff"
#define JPEG_MARK_BYTES 3u

void image_init(struct image *im, int width, int height, uint8_t grey) {
    size_t bytes = (size_t)width * (size_t)height * 3;
    *im = (struct image){ width, height, xmalloc(bytes) };
    memset(im->rgb, grey, bytes);
}

int image_alloc(struct image *im, uint32_t width, uint32_t height, const struct image_file *f,
                struct err *err) {
    if (width == 0 || height == 0)
        return err_set(err, "%s: the image is empty (%u x %u)", f->what, width, height);
    if ((uint64_t)width * height > f->max_pixels)
        return err_set(err, "%s: %u x %u pixels are more than the limit of %llu: scale the image down first",
                       f->what, width, height, (unsigned long long)f->max_pixels);
    *im = (struct image){ (int)width, (int)height, malloc((size_t)width * height * 3) };
    if (!im->rgb) return err_set(err, "%s: not enough memory for %u x %u pixels", f->what, width, height);
    return 0;
}

void image_free(struct image *im) {
    free(im->rgb);
    *im = (struct image){ 0 };
}

void image_crop(const struct image *in, int x, int y, int width, int height, struct image *out) {
    image_init(out, width, height, 0);
    for (int row = 0; row < height; row++)
        memcpy(out->rgb + (size_t)row * (size_t)width * 3,
               in->rgb + ((size_t)(y + row) * (size_t)in->width + (size_t)x) * 3, (size_t)width * 3);
}

/* Returns the index of pixel (x, y) of the upright image in the stored image, for orientations 2..8. */
static size_t stored_at(int orientation, int width, int height, int x, int y) {
    bool swap = orientation >= 5; /* rows and columns are exchanged */
    int u = swap ? y : x, v = swap ? x : y;
    if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) u = width - 1 - u;
    if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) v = height - 1 - v;
    return (size_t)v * (size_t)width + (size_t)u;
}

static int set_upright(struct image *im, int orientation, const struct image_file *f, struct err *err) {
    if (orientation < 2 || orientation > 8) return 0;
    struct image up;
    uint32_t width = (uint32_t)im->width, height = (uint32_t)im->height;
    bool swap = orientation >= 5;
    if (image_alloc(&up, swap ? height : width, swap ? width : height, f, err) < 0) return -1;
    uint8_t *p = up.rgb;
    for (int y = 0; y < up.height; y++)
        for (int x = 0; x < up.width; x++, p += 3)
            memcpy(p, im->rgb + 3 * stored_at(orientation, im->width, im->height, x, y), 3);
    image_free(im);
    *im = up;
    return 0;
}

int image_decode_limited(const struct image_file *f, struct image *out, struct err *err) {
    int orientation = 1, rc;
    *out = (struct image){ 0 };
    if (f->n >= PNG_MARK_BYTES && memcmp(f->data, PNG_MARK, PNG_MARK_BYTES) == 0) {
        rc = image_decode_png(f, out, &orientation, err);
    } else if (f->n >= JPEG_MARK_BYTES && memcmp(f->data, JPEG_MARK, JPEG_MARK_BYTES) == 0) {
        rc = image_decode_jpeg(f, out, &orientation, err);
    } else {
        return err_set(err, "%s: neither PNG nor JPEG: convert the image first", f->what);
    }
    if (rc == 0) rc = set_upright(out, orientation, f, err);
    if (rc < 0) image_free(out);
    return rc;
}

int image_decode(const void *data, size_t n, const char *what, struct image *out, struct err *err) {
    return image_decode_limited(&(struct image_file){ data, n, what, IMAGE_MAX_PIXELS }, out, err);
}

int image_load(const char *path, struct image *out, struct err *err) {
    struct strbuf file = STRBUF_INIT;
    *out = (struct image){ 0 };
    int rc = file_read(path, IMAGE_MAX_FILE_BYTES, &file, err);
    if (rc == 0) rc = image_decode(file.buf, file.len, path, out, err);
    strbuf_free(&file);
    return rc;
}
