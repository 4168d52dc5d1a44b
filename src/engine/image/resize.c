/* Pillow's 8-bit resampling (up to Pillow 12), bit for bit: weights in double, rounded to 22 fractional bits,
 * first the horizontal pass, stored as bytes, then the vertical one. An axis that keeps its size is
 * skipped. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/image/image.h"

#define FRACTION_BITS 22 /* 32 - 8 for the value - 2 for the overshoot of the filter */
#define CUBIC_SUPPORT 2.0
#define CUBIC_A (-0.5)
#define PAD_GREY 127 /* 0.5 * 255, truncated */

/* For each output position: the first input tap, how many, and their weights. */
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

static void taps_init(struct taps *t, int in, int out) {
    double scale = (double)in / out, filter_scale = MAX(scale, 1.0), support = CUBIC_SUPPORT * filter_scale;
    double inverse = 1.0 / filter_scale;
    t->stride = (int)ceil(support) * 2 + 1;
    t->first = xcalloc((size_t)out, sizeof *t->first);
    t->count = xcalloc((size_t)out, sizeof *t->count);
    t->weight = xcalloc((size_t)out * (size_t)t->stride, sizeof *t->weight);
    double *w = xcalloc((size_t)t->stride, sizeof *w);
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
}

static void taps_free(struct taps *t) {
    free(t->first);
    free(t->count);
    free(t->weight);
}

static uint8_t clip8(int32_t v) {
    v >>= FRACTION_BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void alloc_pixels(struct image *out, int width, int height) { /* every pixel will be written */
    *out = (struct image){ width, height, xmalloc((size_t)width * (size_t)height * 3) };
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

static void resize_across(const struct image *in, int width, struct image *out) {
    struct taps t;
    taps_init(&t, in->width, width);
    alloc_pixels(out, width, in->height);
    for (int y = 0; y < in->height; y++)
        resize_row(in->rgb + (size_t)y * (size_t)in->width * 3, out->rgb + (size_t)y * (size_t)width * 3,
                   width, &t);
    taps_free(&t);
}

/* Row by row over all its taps, so that memory is read in order. */
static void resize_down(const struct image *in, int height, struct image *out) {
    struct taps t;
    size_t row = (size_t)in->width * 3;
    int32_t *sum = xcalloc(row, sizeof *sum);
    taps_init(&t, in->height, height);
    alloc_pixels(out, in->width, height);
    for (int y = 0; y < height; y++) {
        for (size_t x = 0; x < row; x++) sum[x] = 1 << (FRACTION_BITS - 1);
        for (int i = 0; i < t.count[y]; i++) {
            const uint8_t *p = in->rgb + (size_t)(t.first[y] + i) * row;
            int32_t w = t.weight[(size_t)y * (size_t)t.stride + (size_t)i];
            for (size_t x = 0; x < row; x++) sum[x] += p[x] * w;
        }
        for (size_t x = 0; x < row; x++) out->rgb[(size_t)y * row + x] = clip8(sum[x]);
    }
    taps_free(&t);
    free(sum);
}

void image_resize(const struct image *in, int width, int height, struct image *out) {
    struct image wide;
    if (in->width == width && in->height == height) {
        image_crop(in, 0, 0, width, height, out);
    } else if (in->height == height) {
        resize_across(in, width, out);
    } else if (in->width == width) {
        resize_down(in, height, out);
    } else {
        resize_across(in, width, &wide);
        resize_down(&wide, height, out);
        image_free(&wide);
    }
}

/* Python's round() is half to even, and so is rint() in the default mode. */
void image_fit_pad(const struct image *in, int side, struct image *out) {
    double shape = (double)in->width / in->height;
    int width = side, height = side;
    if (shape > 1) height = (int)rint((double)in->height / in->width * side);
    if (shape < 1) width = (int)rint(shape * side);
    struct image small;
    image_resize(in, MAX(width, 1), MAX(height, 1), &small);
    image_init(out, side, side, PAD_GREY);
    int x = (int)rint((side - small.width) * 0.5), y = (int)rint((side - small.height) * 0.5);
    for (int row = 0; row < small.height; row++)
        memcpy(out->rgb + ((size_t)(y + row) * (size_t)side + (size_t)x) * 3,
               small.rgb + (size_t)row * (size_t)small.width * 3, (size_t)small.width * 3);
    image_free(&small);
}
