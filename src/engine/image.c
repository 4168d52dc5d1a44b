#include "engine/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"

void image_init(struct image *im, int width, int height, uint8_t grey) {
    size_t bytes = (size_t)width * (size_t)height * 3;
    *im = (struct image){ width, height, xmalloc(bytes) };
    memset(im->rgb, grey, bytes);
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
int image_decode(const void *data, size_t n, const char *what, struct image *out, struct err *err) {
    (void)data, (void)n;
    *out = (struct image){ 0 };
    return err_set(err, "%s: image decoding is not built in yet", what);
}
int image_load(const char *path, struct image *out, struct err *err) {
    return image_decode(NULL, 0, path, out, err);
}
int image_write_jpeg(const char *path, const struct image *im, int quality, struct err *err) {
    (void)im, (void)quality;
    return err_set(err, "%s: writing JPEG is not built in yet", path);
}
int image_write_png(const char *path, const struct image *im, struct err *err) {
    (void)im;
    return err_set(err, "%s: writing PNG is not built in yet", path);
}
