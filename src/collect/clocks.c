#include "collect/clocks.h"

#include "base/clock.h"
#include "base/fixed.h"
#include "base/util.h"
#include "collect/attach.h"
#include "collect/cupti.h"
#include "collect/output.h"

#define SAME_CLOCK_NS 1000000 /* smaller difference: CUPTI uses the wall clock */
#define MAX_PAIRS 4096

int64_t clocks_shift_ns;

struct pair {
    uint64_t gpu, cpu, wall;
    uint64_t width; /* ns between first and last reading */
};
static struct {
    struct pair v[MAX_PAIRS];
    unsigned n;
} pairs; /* background thread only */

/* Keeps the narrowest of a few readings, because a preempted reading is wide. */
static bool read_pair(struct pair *best) {
    best->width = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        struct pair p;
        uint64_t before = clock_wall_ns();
        p.cpu = clock_mono_ns();
        if (cupti.timestamp(&p.gpu) != CUPTI_OK) return false;
        uint64_t after = clock_wall_ns();
        p.width = after - before;
        p.wall = before + p.width / 2;
        if (after >= before && p.width < best->width) *best = p;
    }
    return best->width != UINT64_MAX;
}

void clocks_start(void) {
    struct pair p;
    if (!cupti.library || !read_pair(&p)) return;
    int64_t shift = (int64_t)(p.gpu - p.wall);
    if (shift > SAME_CLOCK_NS || shift < -SAME_CLOCK_NS) clocks_shift_ns = shift;
}

void clocks_pair(void) {
    struct pair p;
    if (!cupti.library || pairs.n == MAX_PAIRS || !attach_enter()) return;
    bool ok = read_pair(&p);
    attach_exit();
    if (!ok) return;
    pairs.v[pairs.n++] = p;
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_meta(w, "clock.pair", "%llu %llu %llu", (unsigned long long)p.gpu, (unsigned long long)p.cpu,
                      (unsigned long long)p.wall);
    output_give();
}

/* Least-squares fit of wall - gpu - base = a + b (gpu - first->gpu). */
static void fit_line(double *a, double *b, double *residual) {
    const struct pair *first = &pairs.v[0];
    double n = pairs.n, sx = 0, sy = 0, sxx = 0, sxy = 0;
    int64_t base = (int64_t)(first->wall - first->gpu);
    for (unsigned i = 0; i < pairs.n; i++) {
        double x = (double)(pairs.v[i].gpu - first->gpu),
               y = (double)((int64_t)(pairs.v[i].wall - pairs.v[i].gpu) - base);
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
    }
    double det = n * sxx - sx * sx;
    *b = det > 0 ? (n * sxy - sx * sy) / det : 0;
    *a = (sy - *b * sx) / n;
    *residual = 0;
    for (unsigned i = 0; i < pairs.n; i++) {
        double x = (double)(pairs.v[i].gpu - first->gpu),
               y = (double)((int64_t)(pairs.v[i].wall - pairs.v[i].gpu) - base);
        double off = y - (*a + *b * x);
        *residual = MAX(*residual, off < 0 ? -off : off);
    }
    *a += (double)base;
}

void clocks_finish(void) {
    double a, b, residual;
    clocks_pair();
    struct trace_writer *w = pairs.n ? output_take() : NULL;
    if (!w) return;
    fit_line(&a, &b, &residual);
    trace_writer_meta(w, "clock.shift_ns", "%lld", (long long)clocks_shift_ns);
    char drift[FIXED_MAX];
    trace_writer_meta(w, "clock.fit", "offset_ns %.0f drift_ppm %s residual_ns %.0f pairs %u", a,
                      fixed_text(b * 1e6, 4, drift), residual, pairs.n);
    output_give();
}

void clocks_after_fork(void) { pairs.n = 0; }
