/* The phases of a program around its steps: start-up and load, warm-up, steady work, shutdown. */
#include <math.h>
#include <stdlib.h>

#include "analyze/recognise_internal.h"
#include "base/die.h"
#include "base/stats.h"
#include "base/util.h"

#define LARGE_COPY_BYTES (1u << 20)
/* a leading step is warm-up if its time per kernel or copy is more than this many times the usual time */
#define WARM_UP_TIMES 3.0
/* used instead of WARM_UP_TIMES for the first step of a kind after the leading warm-up */
#define WARM_UP_FIRST_TIMES 2.0
/* used instead of WARM_UP_TIMES for later steps of unknown kind */
#define COMPILED_TIMES 20.0
#define WARM_UP_LEAST 4 /* fewer steps: usual time unknown */

static double per_kernel_ns(const struct recognised_step *s) {
    return s->count ? (double)(s->end_ns - s->start_ns) / (double)s->count : 0;
}

/* Returns the median time per kernel or copy over the steps of a kind; NaN if there are too few steps. */
static double usual_ns(const struct recognition *r, enum step_kind kind) {
    double *v = xmalloc((r->nsteps + 1) * sizeof *v);
    size_t n = 0;
    for (size_t i = 0; i < r->nsteps; i++)
        if (r->steps[i].kind == kind) v[n++] = per_kernel_ns(&r->steps[i]);
    double median = n >= WARM_UP_LEAST ? stats_of_sorting(v, n).median : NAN;
    free(v);
    return median;
}

struct usual {
    double ns[STEP_KINDS], any; /* median times per kernel or copy, and the smallest of them; NaN: unknown */
    bool graphs;                /* most decode steps run in graphs */
};

static struct usual usual_steps(const struct recognition *r) {
    struct usual u = { .any = NAN };
    size_t graphs = 0, decodes = 0;
    for (int k = 0; k < STEP_KINDS; k++) {
        u.ns[k] = usual_ns(r, k);
        if (u.ns[k] > 0 && !(u.any < u.ns[k])) u.any = u.ns[k];
    }
    for (size_t i = 0; i < r->nsteps; i++) {
        decodes += r->steps[i].kind == STEP_DECODE;
        graphs += r->steps[i].kind == STEP_DECODE && r->steps[i].graph;
    }
    u.graphs = graphs * 2 > decodes;
    return u;
}

static bool is_eager_decode(const struct usual *u, const struct recognised_step *s) {
    return u->graphs && s->kind == STEP_DECODE && !s->graph;
}

static void find_leading(const struct usual *u, struct recognition *r) {
    size_t last = 0;
    for (size_t i = 0; i < r->nsteps && i < r->nsteps / 2; i++) {
        const struct recognised_step *s = &r->steps[i];
        double limit = WARM_UP_TIMES * (u->ns[s->kind] > 0 ? u->ns[s->kind] : u->any);
        if (per_kernel_ns(s) > limit || is_eager_decode(u, s))
            last = i + 1;
        else if (s->kind == STEP_DECODE || !u->graphs || i > last + 1)
            break;
    }
    for (size_t i = 0; i < last; i++) r->steps[i].warm_up = true;
}

/* Marks the first step of a kind after the leading warm-up as warm-up if it was slow. Programs warm up for
 * each kind of work: a benchmark may generate one token before it measures decoding, long after its first
 * prompts. */
static void find_first_of_kind(const struct usual *u, struct recognition *r, enum step_kind kind) {
    size_t at = 0, n = 0;
    for (size_t i = r->nsteps; i-- > 0;)
        if (r->steps[i].kind == kind && !r->steps[i].warm_up) {
            at = i;
            n++;
        }
    if (n < WARM_UP_LEAST || !(u->ns[kind] > 0)) return;
    struct recognised_step *s = &r->steps[at];
    double times = per_kernel_ns(s) / u->ns[kind];
    s->warm_up = times > WARM_UP_FIRST_TIMES;
}

/* Marks later steps in which a language model is compiled or captured again, for example for another batch
 * size. */
static void find_compiled(const struct usual *u, struct recognition *r) {
    for (size_t i = 0; i < r->nsteps; i++)
        if (r->steps[i].kind == STEP_OTHER && per_kernel_ns(&r->steps[i]) > COMPILED_TIMES * u->any)
            r->steps[i].warm_up = true;
}

void recognise_warm_up(struct recognition *r, const struct recognised_phases *whole, bool leading) {
    struct usual u = usual_steps(r);
    if (leading) find_leading(&u, r);
    if (r->llm) find_compiled(&u, r);
    for (int k = 0; k < STEP_KINDS; k++)
        if (k != STEP_OTHER && (!whole || whole->later_kinds >> k & 1)) find_first_of_kind(&u, r, k);
    for (size_t i = 0; i < r->nsteps; i++) r->phases.warm_up_steps += r->steps[i].warm_up;
}

/* Sets load_ns, the time from the first to the last large copy to the device before until_ns (these copies
 * load the weights), and load_bytes, the bytes of all copies to the device before until_ns. Both are 0
 * without large copies. */
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
    p->load_bytes_per_s = p->load_ns > 0 ? p->load_bytes / p->load_ns * 1e9 : NAN;
}

void recognise_phases(const struct timeline *tl, struct recognition *r) {
    struct recognised_phases *p = &r->phases;
    if (!r->nsteps) return;
    uint64_t first = r->steps[0].start_ns, steady = UINT64_MAX, end = 0, inside_ns = 0;
    for (size_t i = 0; i < r->nsteps; i++) {
        first = MIN(first, r->steps[i].start_ns);
        if (r->steps[i].warm_up) continue;
        steady = MIN(steady, r->steps[i].start_ns);
        end = MAX(end, MAX(r->steps[i].end_ns, r->steps[i].gpu_end_ns));
    }
    /* replays without recorded kernels are steady work, too */
    if (tl->replays.n && end) end = MAX(end, tl->replays.end_ns[tl->replays.n - 1]);
    /* warm-up steps between steady steps */
    for (size_t i = 0; i < r->nsteps; i++)
        if (r->steps[i].warm_up && r->steps[i].start_ns >= steady) {
            inside_ns += r->steps[i].end_ns - r->steps[i].start_ns;
            p->later_kinds |= 1u << r->steps[i].kind;
        }
    p->steady_from_ns = steady;
    p->steady_to_ns = end;
    find_load(tl, first, p);
    p->start_ns = first > tl->start_ns ? (double)(first - tl->start_ns) - p->load_ns : 0;
    if (p->start_ns < 0) p->start_ns = 0;
    p->warm_up_ns = (double)(steady - first) + (double)inside_ns;
    p->steady_ns = (double)(end - steady) - (double)inside_ns;
    p->shutdown_ns = tl->end_ns > end ? (double)(tl->end_ns - end) : 0;
}
