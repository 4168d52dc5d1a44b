/* Time to fit a million samples of six metrics to ten million kernels of 240 classes, and the largest
 * error of the fitted rates. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analyze/counter_fit.h"
#include "base/die.h"
#include "base/hash.h"
#include "base/util.h"

#define KERNELS 10000000u
#define CLASSES 240u
#define SAMPLES 1000000u
#define METRICS 6u

static double cpu_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }
static double uniform(uint64_t seed) { return (double)(hash_u64(seed) >> 11) * 0x1p-53; }
static double rate_of(uint32_t class, uint32_t metric) { return 100 * uniform(class * 31u + metric + 1); }

struct load {
    uint64_t *start, *end, *from, *to;
    uint32_t *class_of;
    float *values;
};

/* Decode steps of 500 kernels, 1 to 4 us each, with pauses. */
static void make_kernels(struct load *l) {
    uint64_t now = 1000000;
    for (uint32_t i = 0; i < KERNELS; i++) {
        l->class_of[i] = (i % 500) * 7 % CLASSES;
        l->start[i] = now + hash_u64(i) % 900;
        l->end[i] = now = l->start[i] + 1000 + l->class_of[i] * 12 + hash_u64(i + 7u) % 300;
    }
}

static void make_samples(struct load *l) {
    uint64_t first = l->start[0], each = (l->end[KERNELS - 1] - first) / SAMPLES;
    uint32_t k = 0;
    for (uint32_t s = 0; s < SAMPLES; s++) {
        double sum[METRICS] = { 0 };
        l->from[s] = first + s * each;
        l->to[s] = l->from[s] + each;
        while (k < KERNELS && l->end[k] <= l->from[s]) k++;
        for (uint32_t i = k; i < KERNELS && l->start[i] < l->to[s]; i++) {
            uint64_t a = MAX(l->start[i], l->from[s]), b = MIN(l->end[i], l->to[s]);
            for (uint32_t m = 0; m < METRICS; m++) sum[m] += (double)(b - a) * rate_of(l->class_of[i], m);
        }
        for (uint32_t m = 0; m < METRICS; m++)
            l->values[s * METRICS + m] =
                (float)(sum[m] / (double)each + 4 * (uniform(s * METRICS + m) - 0.5));
    }
}

int main(void) {
    struct load l = { xmalloc(KERNELS * 8ul), xmalloc(KERNELS * 8ul),
                      xmalloc(SAMPLES * 8ul), xmalloc(SAMPLES * 8ul),
                      xmalloc(KERNELS * 4ul), xmalloc(SAMPLES * METRICS * sizeof(float)) };
    make_kernels(&l);
    make_samples(&l);
    struct counter_fit_input in = { KERNELS, l.start, l.end, l.class_of, CLASSES,
                                    SAMPLES, l.from,  l.to,  METRICS,    l.values };
    struct counter_fit fit;
    double start = cpu_seconds(), worst = 0, sum = 0;
    counter_fit_run(&in, &fit);
    double took = cpu_seconds() - start;
    for (uint32_t m = 0; m < METRICS; m++)
        for (uint32_t c = 0; c < CLASSES; c++) {
            double off = fabs(fit.rate[m * (CLASSES + 1) + c] - rate_of(c, m));
            worst = MAX(worst, off);
            sum += fit.error[m * (CLASSES + 1) + c];
        }
    printf("%u kernels of %u classes, %u samples, %u metrics: fitted in %.2f s; largest error %.2f points, "
           "mean standard "
           "error %.2f\n",
           KERNELS, CLASSES, SAMPLES, METRICS, took, worst, sum / (CLASSES * METRICS));
    counter_fit_free(&fit);
    free(l.start);
    free(l.end);
    free(l.from);
    free(l.to);
    free(l.class_of);
    free(l.values);
    return worst < 5 ? 0 : 1;
}
