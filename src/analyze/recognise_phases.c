/* The phases of a program around its steps: start-up and load, warm-up, steady work, shutdown. */
#include <math.h>
#include <stdlib.h>

#include "analyze/recognise_internal.h"
#include "base/die.h"
#include "base/stats.h"
#include "base/util.h"

#define LARGE_COPY_BYTES (1u << 20)
/* a leading step is warm-up if its time per kernel is more than this many times the usual time */
#define WARM_UP_TIMES 3.0
#define WARM_UP_LEAST 4 /* with fewer steps of a kind, the usual time is unknown */

static double per_kernel_ns(const struct recognised_step *s) {
    return s->count ? (double)(s->end_ns - s->start_ns) / (double)s->count : 0;
}

/* Returns the median time per kernel over the steps of a kind; NaN if there are too few steps. */
static double usual_ns(const struct recognition *r, enum step_kind kind) {
    double *v = xmalloc((r->nsteps + 1) * sizeof *v);
    size_t n = 0;
    for (size_t i = 0; i < r->nsteps; i++)
        if (r->steps[i].kind == kind) v[n++] = per_kernel_ns(&r->steps[i]);
    double median = n >= WARM_UP_LEAST ? stats_of_sorting(v, n).median : NAN;
    free(v);
    return median;
}

void recognise_warm_up(struct recognition *r) {
    double usual[STEP_KINDS], any = NAN;
    size_t graphs = 0, decodes = 0, last = 0;
    for (int k = 0; k < STEP_KINDS; k++) {
        usual[k] = usual_ns(r, k);
        if (usual[k] > 0 && !(any < usual[k])) any = usual[k];
    }
    for (size_t i = 0; i < r->nsteps; i++) {
        decodes += r->steps[i].kind == STEP_DECODE;
        graphs += r->steps[i].kind == STEP_DECODE && r->steps[i].graph;
    }
    bool uses_graphs = graphs * 2 > decodes;
    for (size_t i = 0; i < r->nsteps && i < r->nsteps / 2; i++) {
        const struct recognised_step *s = &r->steps[i];
        double limit = WARM_UP_TIMES * (usual[s->kind] > 0 ? usual[s->kind] : any);
        bool slow = per_kernel_ns(s) > limit, eager = uses_graphs && s->kind == STEP_DECODE && !s->graph;
        if (slow || eager)
            last = i + 1;
        else if (s->kind == STEP_DECODE || !uses_graphs || i > last + 1)
            break;
    }
    for (size_t i = 0; i < last; i++) r->steps[i].warm_up = true;
    r->phases.warm_up_steps = last;
}

/* Sets the time from the first to the last large copy to the device before `until_ns` (these copies load the
 * weights), and the bytes of all copies to the device before it. Both are 0 without large copies. */
static void find_load(const struct timeline *tl, uint64_t until_ns, struct recognised_phases *p) {
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t i = 0; i < tl->copies.n; i++) {
        if (tl->copies.kind[i] != TRACE_COPY_HTOD || tl->copies.start_ns[i] >= until_ns) continue;
        p->load_bytes += (double)tl->copies.bytes[i];
        if (tl->copies.bytes[i] < LARGE_COPY_BYTES) continue;
        first = MIN(first, tl->copies.start_ns[i]);
        last = MAX(last, tl->copies.end_ns[i]);
    }
    p->load_ns = last > first ? (double)(last - first) : 0;
    if (!last) p->load_bytes = 0;
}

void recognise_phases(const struct timeline *tl, struct recognition *r) {
    struct recognised_phases *p = &r->phases;
    if (!r->nsteps) return;
    uint64_t first = r->steps[0].start_ns, steady = UINT64_MAX, end = 0;
    for (size_t i = 0; i < r->nsteps; i++) {
        first = MIN(first, r->steps[i].start_ns);
        if (r->steps[i].warm_up) continue;
        steady = MIN(steady, r->steps[i].start_ns);
        end = MAX(end, MAX(r->steps[i].end_ns, r->steps[i].gpu_end_ns));
    }
    /* replays whose kernels were not recorded continue the same work */
    if (tl->replays.n && end) end = MAX(end, tl->replays.end_ns[tl->replays.n - 1]);
    p->steady_from_ns = steady;
    p->steady_to_ns = end;
    find_load(tl, first, p);
    p->start_ns = first > tl->start_ns ? (double)(first - tl->start_ns) - p->load_ns : 0;
    if (p->start_ns < 0) p->start_ns = 0;
    p->warm_up_ns = (double)(steady - first);
    p->steady_ns = (double)(end - steady);
    p->shutdown_ns = tl->end_ns > end ? (double)(tl->end_ns - end) : 0;
}
