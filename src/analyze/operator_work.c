/* FLOPs and bytes of operators and of their kernels: the engine's own count if the trace has one, else
 * computed from the shapes of PyTorch's operators. If a counted operator calls another counted operator
 * (aten::linear calls aten::addmm), only the inner operator is counted. On a GPU, a call counts only if
 * kernels that it launched are in the trace: other kernels can run while it is open. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "analyze/operator_shapes.h"
#include "analyze/range_tree.h"
#include "analyze/step_attention.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

/* A kernel gets its operator's FLOPs if it takes at least this share of the operator's kernel time. */
#define DOMINANT 0.8

/* The kernels of one call. */
struct call_kernels {
    double ns, longest_ns;
    uint32_t longest; /* index of the longest kernel */
};

/* Cache of FLOPs and bytes by (name, detail): the same shapes occur many times. */
struct shape_cache {
    struct intern *ids;
    struct {
        struct operator_work *v;
        size_t n, cap;
    } work;
};

static bool has_own_count(const struct timeline_ranges *r, size_t i) {
    return (r->flops && !isnan(r->flops[i])) || (r->bytes && !isnan(r->bytes[i]));
}

/* Sets FLOPs, bytes and operand type of range i from its shapes; returns false if that is not possible. */
static bool work_from_shapes(struct context *c, struct shape_cache *cache, size_t i, uint8_t *type) {
    const struct timeline_ranges *r = &c->tl->ranges;
    if (!r->detail[i] || (r->flags[i] & TRACE_RANGE_MARK)) return false;
    uint32_t key[2] = { r->name[i], r->detail[i] }, id = intern_id(cache->ids, (const char *)key, sizeof key);
    if (id == cache->work.n) {
        struct operator_work w = { NAN, NAN, LLM_DTYPE_UNKNOWN };
        operator_shapes_work(timeline_text(c->tl, key[0]), timeline_text(c->tl, key[1]), &w);
        vec_push(&cache->work, w);
    }
    c->range_flops[i] = cache->work.v[id].flops;
    c->range_bytes[i] = cache->work.v[id].bytes;
    *type = (uint8_t)cache->work.v[id].type;
    return !isnan(c->range_flops[i]);
}

/* Sets the FLOPs and bytes of ranges. counted[i] becomes 1 if they come from the shapes of range i. A range
 * that contains a counted range is not counted. Children follow their parents, so the loop runs backwards. */
static void count_innermost(struct context *c, struct step_attention *steps, uint8_t *counted,
                            uint8_t *types) {
    const struct timeline_ranges *r = &c->tl->ranges;
    struct shape_cache cache = { .ids = intern_open() };
    uint8_t *inside = xcalloc(r->n + 1, 1); /* 1: contains a counted range */
    for (size_t i = r->n; i-- > 0;) {
        if (has_own_count(r, i)) {
            c->range_flops[i] = r->flops ? r->flops[i] : NAN;
            c->range_bytes[i] = r->bytes ? r->bytes[i] : NAN;
        } else if (!inside[i]) {
            counted[i] =
                work_from_shapes(c, &cache, i, &types[i]) || step_attention_add(steps, c, i, &types[i]);
        }
        if (r->parent[i] != TIMELINE_NONE) inside[r->parent[i]] |= inside[i] | counted[i];
    }
    free(inside);
    free(cache.work.v);
    intern_close(cache.ids);
}

static bool is_counted(const void *counted, size_t range) { return ((const uint8_t *)counted)[range]; }

static struct call_kernels *kernels_of_calls(const struct context *c, const uint8_t *counted) {
    const struct timeline_kernels *k = &c->tl->kernels;
    struct call_kernels *calls = xcalloc(c->tl->ranges.n + 1, sizeof *calls);
    uint32_t *of = range_tree_nearest(&c->tl->ranges, is_counted, counted);
    for (size_t i = 0; i < k->n; i++) {
        uint32_t call = k->range[i] == TIMELINE_NONE ? TIMELINE_NONE : of[k->range[i]];
        bool launched = k->launch[i] != TIMELINE_NONE || c->a->cpu_only;
        if (call == TIMELINE_NONE || !launched) continue;
        double ns = (double)(k->end_ns[i] - k->start_ns[i]);
        calls[call].ns += ns;
        if (ns <= calls[call].longest_ns) continue;
        calls[call].longest_ns = ns;
        calls[call].longest = (uint32_t)i;
    }
    free(of);
    return calls;
}

/* Computes the time of each range's FLOPs at the peak of its type. The name of its longest kernel may show
 * that it computes F32 in TF32. */
static void set_compute_time(struct context *c, const uint8_t *types, const struct call_kernels *calls) {
    const struct timeline *tl = c->tl;
    for (size_t i = 0; i < tl->ranges.n; i++) {
        enum llm_dtype type = (enum llm_dtype)types[i];
        if (calls[i].ns > 0)
            type =
                type_in_kernel(type, timeline_text(tl, tl->shapes[tl->kernels.shape[calls[i].longest]].name));
        c->range_compute_ns[i] = c->range_flops[i] / type_peak(c, type) * 1e9;
    }
}

struct shape_sums {
    double flops, bytes, ns, compute_ns;
    uint64_t calls;
};

static void give_to_kernels(struct context *c, const uint8_t *counted, const struct call_kernels *calls) {
    const struct timeline *tl = c->tl;
    struct shape_sums *sums = xcalloc(tl->nshapes + 1, sizeof *sums);
    for (size_t i = 0; i < tl->ranges.n; i++) {
        if (!counted[i] || !(calls[i].ns > 0) || calls[i].longest_ns < DOMINANT * calls[i].ns) continue;
        struct shape_sums *s = &sums[tl->kernels.shape[calls[i].longest]];
        s->flops += c->range_flops[i];
        s->bytes += c->range_bytes[i];
        s->ns += calls[i].longest_ns;
        s->compute_ns += c->range_compute_ns[i];
        s->calls++;
    }
    for (size_t i = 0; i < tl->nshapes; i++) {
        struct analysis_kernel *k = &c->a->kernels[c->a->shape_kernel[i]];
        if (!sums[i].calls || !isnan(k->flops)) continue;
        k->flops = sums[i].flops / (double)sums[i].calls;
        k->bytes = sums[i].bytes / (double)sums[i].calls;
        k->work_ns = sums[i].ns / (double)sums[i].calls;
        k->compute_ns = sums[i].compute_ns / (double)sums[i].calls;
        k->work_source = "operator shapes";
    }
    free(sums);
}

static void set_unknown(struct context *c, size_t range) {
    c->range_counted[range] = 0;
    c->range_flops[range] = c->range_bytes[range] = NAN;
}

void analyze_operator_work(struct context *c) {
    const struct timeline_ranges *r = &c->tl->ranges;
    c->range_flops = xmalloc((r->n + 1) * sizeof *c->range_flops);
    c->range_bytes = xmalloc((r->n + 1) * sizeof *c->range_bytes);
    c->range_compute_ns = xmalloc((r->n + 1) * sizeof *c->range_compute_ns);
    c->range_counted = xcalloc(r->n + 1, 1);
    uint8_t *types = xcalloc(r->n + 1, 1); /* enum llm_dtype */
    for (size_t i = 0; i < r->n; i++) c->range_flops[i] = c->range_bytes[i] = NAN;
    struct step_attention steps = { 0 };
    count_innermost(c, &steps, c->range_counted, types);
    struct call_kernels *calls = kernels_of_calls(c, c->range_counted);
    for (size_t i = 0; i < r->n; i++)
        if (c->range_counted[i] && !(calls[i].ns > 0) && !c->a->cpu_only) set_unknown(c, i);
    for (size_t i = 0; i < steps.n; i++) steps.v[i].ns = calls[steps.v[i].range].ns;
    step_attention_close(&steps, c, set_unknown);
    set_compute_time(c, types, calls);
    give_to_kernels(c, c->range_counted, calls);
    free(types);
    free(calls);
}
