/* Joins GEMM records (sizes as passed to the library) with the kernels that these calls launched, and sets
 * the kernels' FLOPs and bytes per call. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/element_type.h"
#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"

/* A record without correlation id belongs to the next kernel launch of its thread, if this launch starts
 * within this time. */
#define NEAR_NS 1000000

/* Returns the bytes of operands and result, each matrix once, for types such as "bf16,bf16->bf16 compute
 * f32". Returns NaN if a type is missing or unknown. */
static double gemm_bytes(const struct trace_gemm *g, const char *types) {
    const char *comma = strchr(types, ','), *arrow = strstr(types, "->");
    if (!comma || !arrow || comma > arrow) return NAN;
    size_t out_len = strcspn(arrow + 2, " ");
    double a = element_type_bytes(types, (size_t)(comma - types)),
           b = element_type_bytes(comma + 1, (size_t)(arrow - comma - 1)),
           d = element_type_bytes(arrow + 2, out_len);
    if (!a || !b || !d) return NAN;
    double m = (double)g->m, n = (double)g->n, k = (double)g->k;
    return (m * k * a + k * n * b + m * n * d) * (double)MAX(g->batch, 1);
}

/* Returns the type of the operands, such as "bf16" for "bf16,bf16->bf16 compute f32"; TF32 if the library
 * computes in TF32. */
static enum llm_dtype gemm_type(const char *types) {
    if (strstr(types, "tf32")) return LLM_TF32;
    return element_type(types, strcspn(types, ","));
}

double gemm_flops(const struct trace_gemm *g) {
    return 2.0 * (double)g->m * (double)g->n * (double)g->k * (double)MAX(g->batch, 1);
}

double gemm_compute_ns(const struct context *c, const struct trace_gemm *g, const char *kernel_name) {
    enum llm_dtype type = gemm_type(timeline_text(c->tl, g->types));
    return gemm_flops(g) / type_peak(c, type_in_kernel(type, kernel_name)) * 1e9;
}

struct gemm_sums {
    double flops, bytes, ns, compute_ns, calls;
};

static void add_gemm(struct context *c, const struct trace_gemm *g, const char *kernel, double ns,
                     struct gemm_sums *s) {
    s->flops += gemm_flops(g);
    s->bytes += gemm_bytes(g, timeline_text(c->tl, g->types));
    s->ns += ns;
    s->compute_ns += gemm_compute_ns(c, g, kernel);
    s->calls++;
}

/* Launches and GEMM records are sorted by start. */
uint32_t *gemm_of_launch(const struct context *c) {
    const struct timeline *tl = c->tl;
    uint32_t *of = xmalloc(tl->launches.n * sizeof *of),
             *waiting = xmalloc((tl->nthreads + 1) * sizeof *waiting);
    memset(of, 0xff, tl->launches.n * sizeof *of);
    memset(waiting, 0xff, (tl->nthreads + 1) * sizeof *waiting);
    for (size_t i = 0, next = 0; i < tl->launches.n; i++) {
        for (; next < tl->gemms.n && tl->gemms.v[next].start_ns <= tl->launches.start_ns[i]; next++)
            if (tl->gemms.launch[next] == TIMELINE_NONE) waiting[tl->gemms.v[next].thread] = (uint32_t)next;
        uint32_t g = waiting[tl->launches.thread[i]];
        if (g == TIMELINE_NONE || tl->launches.api_kind[i] != TIMELINE_API_KERNEL) continue;
        if (tl->launches.start_ns[i] - tl->gemms.v[g].start_ns < NEAR_NS) of[i] = g;
        waiting[tl->launches.thread[i]] = TIMELINE_NONE;
    }
    for (size_t i = 0; i < tl->gemms.n; i++)
        if (tl->gemms.launch[i] != TIMELINE_NONE) of[tl->gemms.launch[i]] = (uint32_t)i;
    free(waiting);
    return of;
}

void analyze_gemms(struct context *c) {
    const struct timeline *tl = c->tl;
    if (!tl->gemms.n || !tl->launches.n) return;
    uint32_t *of = gemm_of_launch(c);
    struct gemm_sums *sums = xcalloc(tl->nshapes + 1, sizeof *sums);
    for (size_t i = 0; i < tl->kernels.n; i++) {
        uint32_t launch = tl->kernels.launch[i];
        if (launch == TIMELINE_NONE || of[launch] == TIMELINE_NONE || tl->launches.kernels[launch] > 1)
            continue;
        const struct trace_gemm *g = &tl->gemms.v[of[launch]];
        uint32_t shape = tl->kernels.shape[i];
        add_gemm(c, g, timeline_text(tl, tl->shapes[shape].name),
                 (double)(tl->kernels.end_ns[i] - tl->kernels.start_ns[i]), &sums[shape]);
    }
    for (size_t i = 0; i < tl->nshapes; i++) {
        const struct gemm_sums *s = &sums[i];
        if (!s->calls) continue;
        struct analysis_kernel *k = &c->a->kernels[c->a->shape_kernel[i]];
        k->flops = s->flops / s->calls;
        k->bytes = s->bytes / s->calls;
        k->work_ns = s->ns / s->calls;
        k->compute_ns = s->compute_ns / s->calls;
        k->work_source = "gemm records";
    }
    free(sums);
    free(of);
}
