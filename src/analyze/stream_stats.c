#include "analyze/stream_stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/die.h"

/* When the buffer is full, every other value is discarded and the stride doubles. */
void stream_stats_add(struct stream_stats *s, double v) {
    s->sum += v;
    if (!s->v) {
        s->v = xmalloc(STREAM_STATS_MAX * sizeof *s->v);
        s->stride = 1;
    }
    if (s->seen++ % s->stride) return;
    if (s->n == STREAM_STATS_MAX) {
        for (size_t i = 0; i < STREAM_STATS_MAX / 2; i++) s->v[i] = s->v[2 * i];
        s->n = STREAM_STATS_MAX / 2;
        s->stride *= 2;
        if ((s->seen - 1) % s->stride) return;
    }
    s->v[s->n++] = v;
}

struct stats stream_stats_take(struct stream_stats *s) {
    struct stats r = stats_of_sorting(s->v, s->n);
    /* The deviation is computed from the kept values, the interval from the count of all values. */
    if (s->seen > s->n) {
        double half = (r.ci95_high - r.ci95_low) / 2 * sqrt((double)s->n / (double)s->seen);
        r.n = s->seen;
        r.sum = s->sum;
        r.mean = s->sum / (double)s->seen;
        r.ci95_low = r.mean - half;
        r.ci95_high = r.mean + half;
    }
    free(s->v);
    *s = (struct stream_stats){ 0 };
    return r;
}
