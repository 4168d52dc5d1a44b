/* Ranks beside each other: who works longest outside communication, and how far apart they reach a
 * collective. */
#include <math.h>
#include <stdlib.h>

#include "analyze/trace_stats_internal.h"
#include "base/util.h"

static int by_time(const void *pa, const void *pb) {
    uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    return (a > b) - (a < b);
}

/* The n-th collective of one rank is the n-th of every other, if all ran the same number on one clock. */
static bool comparable(const struct trace_stats *st) {
    if (st->ranks.n < 2 || !st->ranks.v[0].comm_starts.n) return false;
    for (size_t i = 0; i < st->ranks.n; i++)
        if (!st->ranks.v[i].unix_clock || st->ranks.v[i].comm_starts.n != st->ranks.v[0].comm_starts.n)
            return false;
    return true;
}

static void measure_skew(struct trace_stats *st) {
    size_t n = st->ranks.v[0].comm_starts.n;
    double sum = 0, max = 0;
    for (size_t r = 0; r < st->ranks.n; r++) st->ranks.v[r].late_ns = 0;
    for (size_t k = 0; k < n; k++) {
        uint64_t first = UINT64_MAX, last = 0;
        for (size_t r = 0; r < st->ranks.n; r++) {
            first = MIN(first, st->ranks.v[r].comm_starts.v[k]);
            last = MAX(last, st->ranks.v[r].comm_starts.v[k]);
        }
        sum += (double)(last - first);
        max = MAX(max, (double)(last - first));
        for (size_t r = 0; r < st->ranks.n; r++)
            st->ranks.v[r].late_ns += (double)(st->ranks.v[r].comm_starts.v[k] - first) / (double)n;
    }
    st->skew.matched = n;
    st->skew.mean_ns = sum / (double)n;
    st->skew.max_ns = max;
}

void trace_stats_compare_ranks(struct trace_stats *st) {
    if (st->ranks.n < 2) return;
    size_t slowest = 0;
    for (size_t i = 0; i < st->ranks.n; i++) {
        struct trace_stats_rank *r = &st->ranks.v[i];
        sort_if_any(r->comm_starts.v, r->comm_starts.n, sizeof *r->comm_starts.v, by_time);
        if (r->compute_ns > st->ranks.v[slowest].compute_ns) slowest = i;
    }
    if (st->ranks.v[slowest].compute_ns) st->skew.slowest = slowest;
    if (comparable(st)) measure_skew(st);
}
