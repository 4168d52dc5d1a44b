#include "engine/cpu/resample.h"

#include <stddef.h>

#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"

/* Filter taps of every output position on one axis. */
struct taps {
    int *first, *count;
    float *weight; /* [to][width] */
    int width;
};

static double cubic_weight(double x) {
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    return 0;
}

static void taps_init(struct taps *t, int from, int to) {
    double scale = (double)from / to, wide = MAX(scale, 1.0), support = 2 * wide;
    t->width = (int)ceil(support) * 2 + 1;
    t->first = xcalloc((size_t)to, sizeof *t->first);
    t->count = xcalloc((size_t)to, sizeof *t->count);
    t->weight = xcalloc((size_t)to * (size_t)t->width, sizeof *t->weight);
    for (int i = 0; i < to; i++) {
        double centre = (i + 0.5) * scale, total = 0;
        int lo = MAX(0, (int)(centre - support + 0.5)), hi = MIN(from, (int)(centre + support + 0.5));
        float *w = t->weight + (ptrdiff_t)i * t->width;
        t->first[i] = lo;
        t->count[i] = hi - lo;
        for (int j = lo; j < hi; j++) total += cubic_weight((j - centre + 0.5) / wide);
        for (int j = lo; j < hi; j++) w[j - lo] = (float)(cubic_weight((j - centre + 0.5) / wide) / total);
    }
}

static void taps_free(struct taps *t) {
    free(t->first);
    free(t->count);
    free(t->weight);
}

/* out[to][inner] = in[from][inner] with the taps applied along the first dimension. */
static void resample_axis(const struct taps *t, const float *in, int to, size_t inner, float *out) {
    for (int i = 0; i < to; i++) {
        float *y = out + (size_t)i * inner;
        for (size_t c = 0; c < inner; c++) y[c] = 0;
        for (int j = 0; j < t->count[i]; j++) {
            const float *x = in + (size_t)(t->first[i] + j) * inner;
            float w = t->weight[(ptrdiff_t)i * t->width + j];
            for (size_t c = 0; c < inner; c++) y[c] += w * x[c];
        }
    }
}

void resample_bicubic(const float *in, int from, int to, int channels, float *out) {
    struct taps t;
    size_t row = (size_t)channels;
    float *half = xcalloc((size_t)from * (size_t)to * row, sizeof *half); /* [from][to][channels] */
    taps_init(&t, from, to);
    for (int y = 0; y < from; y++)
        resample_axis(&t, in + (size_t)y * (size_t)from * row, to, row, half + (size_t)y * (size_t)to * row);
    resample_axis(&t, half, to, (size_t)to * row, out);
    taps_free(&t);
    free(half);
}

void resample_linear(const float *in, int from, int to, int channels, float *out) {
    float scale = (float)from / (float)to;
    for (int i = 0; i < to; i++) {
        float at = MAX(0.0f, ((float)i + 0.5f) * scale - 0.5f);
        int lo = MIN((int)at, from - 1), hi = MIN(lo + 1, from - 1);
        float w = at - (float)lo;
        for (int c = 0; c < channels; c++)
            out[(ptrdiff_t)i * channels + c] =
                in[(ptrdiff_t)lo * channels + c] * (1 - w) + in[(ptrdiff_t)hi * channels + c] * w;
    }
}
