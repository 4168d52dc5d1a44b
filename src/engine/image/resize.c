/* Pillow's 8-bit resampling (up to Pillow 12), bit for bit. Weights are computed in double and rounded to
 * 22 fractional bits. The horizontal pass comes first and stores bytes; then comes the vertical pass. An
 * axis whose size does not change is skipped. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "engine/image/image.h"

#define FRACTION_BITS 22 /* of a weight: 32 minus 8 for the value and 2 for the overshoot of the filter */
#define CUBIC_SUPPORT 2.0
#define CUBIC_A (-0.5)
#define MAX_WEIGHTS (128u << 20) /* limit per axis: 512 MB, enough for sides of about 30 million pixels */
#define PAD_GREY 127             /* 0.5 * 255, truncated */

/* For each output position: the index of the first input, the number of inputs, and their weights. */
struct taps {
    int *first, *count; /* [out] */
    int32_t *weight;    /* [out][stride] */
    int stride;
};

static double cubic_weight(double x) {
    x = fabs(x);
    if (x < 1.0) return ((CUBIC_A + 2.0) * x - (CUBIC_A + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * CUBIC_A;
    return 0.0;
}

static int32_t to_fixed(double w) { return (int32_t)((w < 0 ? -0.5 : 0.5) + w * (1 << FRACTION_BITS)); }

static void taps_free(struct taps *t) {
    free(t->first);
    free(t->count);
    free(t->weight);
}

static int tap_stride(int in, int out) {
    return (int)ceil(CUBIC_SUPPORT * MAX((double)in / out, 1.0)) * 2 + 1;
}

/* Returns false if memory is short. The weights take about 16 bytes per input position if the axis
 * shrinks, and 20 bytes per output position if it grows. */
static bool taps_init(struct taps *t, int in, int out) {
    double scale = (double)in / out, filter_scale = MAX(scale, 1.0), support = CUBIC_SUPPORT * filter_scale;
    double inverse = 1.0 / filter_scale;
    *t = (struct taps){ .stride = tap_stride(in, out) };
    t->first = calloc((size_t)out, sizeof *t->first);
    t->count = calloc((size_t)out, sizeof *t->count);
    t->weight = calloc((size_t)out * (size_t)t->stride, sizeof *t->weight);
    double *w = calloc((size_t)t->stride, sizeof *w);
    if (!t->first || !t->count || !t->weight || !w) {
        taps_free(t);
        free(w);
        return false;
    }
    for (int x = 0; x < out; x++) {
        double centre = (x + 0.5) * scale, sum = 0;
        int first = MAX((int)(centre - support + 0.5), 0);
        int count = MIN((int)(centre + support + 0.5), in) - first;
        for (int i = 0; i < count; i++) sum += w[i] = cubic_weight((i + first - centre + 0.5) * inverse);
        for (int i = 0; i < count; i++)
            t->weight[(size_t)x * (size_t)t->stride + (size_t)i] = to_fixed(sum != 0 ? w[i] / sum : w[i]);
        t->first[x] = first;
        t->count[x] = count;
    }
    free(w);
    return true;
}

static uint8_t clip8(int32_t v) {
    v >>= FRACTION_BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Leaves the pixels uninitialised, because every pixel will be written. */
static bool alloc_pixels(struct image *out, int width, int height) {
    *out = (struct image){ width, height, malloc((size_t)width * (size_t)height * 3) };
    return out->rgb != NULL;
}

static void resize_row(const uint8_t *in, uint8_t *out, int width, const struct taps *t) {
    for (int x = 0; x < width; x++, out += 3) {
        const int32_t *w = t->weight + (size_t)x * (size_t)t->stride;
        const uint8_t *p = in + (size_t)t->first[x] * 3;
        int32_t r = 1 << (FRACTION_BITS - 1), g = r, b = r;
        for (int i = 0; i < t->count[x]; i++, p += 3) {
            r += p[0] * w[i];
            g += p[1] * w[i];
            b += p[2] * w[i];
        }
        out[0] = clip8(r);
        out[1] = clip8(g);
        out[2] = clip8(b);
    }
}

static bool resize_across(const struct image *in, int width, struct image *out) {
    struct taps t;
    if (!taps_init(&t, in->width, width)) return false;
    bool ok = alloc_pixels(out, width, in->height);
    for (int y = 0; ok && y < in->height; y++)
        resize_row(in->rgb + (size_t)y * (size_t)in->width * 3, out->rgb + (size_t)y * (size_t)width * 3,
                   width, &t);
    taps_free(&t);
    return ok;
}

/* Computes one output row. Adds the input rows one by one, so that memory is read sequentially. */
static void resize_column_sums(const struct image *in, const struct taps *t, int y, int32_t *sum,
                               uint8_t *out) {
    size_t row = (size_t)in->width * 3;
    for (size_t x = 0; x < row; x++) sum[x] = 1 << (FRACTION_BITS - 1);
    for (int i = 0; i < t->count[y]; i++) {
        const uint8_t *p = in->rgb + (size_t)(t->first[y] + i) * row;
        int32_t w = t->weight[(size_t)y * (size_t)t->stride + (size_t)i];
        for (size_t x = 0; x < row; x++) sum[x] += p[x] * w;
    }
    for (size_t x = 0; x < row; x++) out[x] = clip8(sum[x]);
}

static bool resize_down(const struct image *in, int height, struct image *out) {
    struct taps t;
    size_t row = (size_t)in->width * 3;
    if (!taps_init(&t, in->height, height)) return false;
    int32_t *sum = calloc(row, sizeof *sum);
    bool ok = sum && alloc_pixels(out, in->width, height);
    for (int y = 0; ok && y < height; y++) resize_column_sums(in, &t, y, sum, out->rgb + (size_t)y * row);
    taps_free(&t);
    free(sum);
    return ok;
}

static bool resize_both(const struct image *in, int width, int height, struct image *out) {
    struct image wide = { 0 };
    bool ok = resize_across(in, width, &wide) && resize_down(&wide, height, out);
    image_free(&wide);
    return ok;
}

static bool is_too_large(int width, int height) {
    return (uint64_t)width * (uint64_t)height > IMAGE_MAX_PIXELS;
}

static bool has_too_many_weights(int in, int out) {
    return in != out && (uint64_t)out * (uint64_t)tap_stride(in, out) > MAX_WEIGHTS;
}

int image_resize(const struct image *in, int width, int height, struct image *out, struct err *err) {
    bool same_width = in->width == width, same_height = in->height == height;
    *out = (struct image){ 0 };
    if (is_too_large(width, height) || (!same_height && is_too_large(width, in->height)) ||
        has_too_many_weights(in->width, width) || has_too_many_weights(in->height, height))
        return err_set(err,
                       "an image of %d x %d pixels cannot be resized to %d x %d: it is too long and narrow; "
                       "split it first",
                       in->width, in->height, width, height);
    bool ok = true;
    if (same_width && same_height)
        image_crop(in, 0, 0, width, height, out);
    else if (same_height)
        ok = resize_across(in, width, out);
    else if (same_width)
        ok = resize_down(in, height, out);
    else
        ok = resize_both(in, width, height, out);
    if (ok) return 0;
    image_free(out);
    return err_set(err, "not enough memory to resize an image of %d x %d pixels to %d x %d", in->width,
                   in->height, width, height);
}

/* Uses rint(), which rounds half to even, like Python's round(). */
int image_fit_pad(const struct image *in, int side, struct image *out, struct err *err) {
    double shape = (double)in->width / in->height;
    int width = side, height = side;
    if (shape > 1) height = (int)rint((double)in->height / in->width * side);
    if (shape < 1) width = (int)rint(shape * side);
    struct image small;
    *out = (struct image){ 0 };
    if (image_resize(in, MAX(width, 1), MAX(height, 1), &small, err) < 0) return -1;
    image_init(out, side, side, PAD_GREY);
    int x = (int)rint((side - small.width) * 0.5), y = (int)rint((side - small.height) * 0.5);
    for (int row = 0; row < small.height; row++)
        memcpy(out->rgb + ((size_t)(y + row) * (size_t)side + (size_t)x) * 3,
               small.rgb + (size_t)row * (size_t)small.width * 3, (size_t)small.width * 3);
    image_free(&small);
    return 0;
}
