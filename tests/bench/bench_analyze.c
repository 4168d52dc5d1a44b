/* Time to build and analyse a timeline of ten million kernels, their launches and a million operators.
 * Three streams overlap. Records arrive in buffers, not in order of time, as the collector writes them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "analyze/analyze.h"
#include "base/clock.h"
#include "base/util.h"

#define KERNELS 10000000u
#define A_STEP 500u /* kernels per decode step */
#define A_BATCH 500u
#define NAMES 60u

static double peak_gb(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss * 1024e-9;
}

static double cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

struct batch {
    struct trace_kernel kernels[A_BATCH];
    struct trace_launch launches[A_BATCH];
    struct trace_range ranges[A_BATCH];
};

static void names_of(struct timeline_builder *b, uint32_t *names) {
    char text[64];
    for (uint32_t i = 0; i < NAMES; i++) {
        snprintf(text, sizeof text, i % 3 ? "_ZN2at6native6kernelILi%uEEEvv" : "nvjet_tst_64x%u_64x4_TNN", i);
        names[i] = timeline_builder_text(b, text);
    }
}

static void fill(struct batch *v, uint32_t step, const uint32_t *names, uint32_t api, uint32_t op) {
    uint64_t base = (uint64_t)step * A_STEP * 3000;
    for (uint32_t i = 0; i < A_BATCH; i++) {
        uint32_t n = step * A_STEP + i, stream = n % 17 == 0 ? 1 + n % 2 : 0;
        uint64_t call = base + (uint64_t)i * 3000, start = call + 4000 + (stream ? 2000 : 0);
        v->launches[i] = (struct trace_launch){
            .start_ns = call, .end_ns = call + 1500, .correlation = n + 1, .thread = 7, .api = api
        };
        v->kernels[i] = (struct trace_kernel){ .start_ns = start,
                                               .end_ns = start + 900 + n * 7 % 2500,
                                               .correlation = n + 1,
                                               .stream = stream,
                                               .name = names[n % NAMES],
                                               .grid_x = 64 + n % 4,
                                               .grid_y = 1,
                                               .grid_z = 1,
                                               .block_x = 256,
                                               .block_y = 1,
                                               .block_z = 1,
                                               .registers = 64 };
        v->ranges[i] = (struct trace_range){ .start_ns = call,
                                             .end_ns = call + 2500,
                                             .thread = 7,
                                             .depth = 1,
                                             .category = TRACE_CATEGORY_OP,
                                             .name = op + n % 8,
                                             .flops = NAN,
                                             .bytes = NAN,
                                             .payload = NAN };
    }
}

static struct timeline *build(void) {
    static struct batch v;
    struct timeline_builder *b = timeline_builder_open();
    uint32_t names[NAMES], api = timeline_builder_text(b, "cudaLaunchKernel"),
                           decode = timeline_builder_text(b, "decode"),
                           op = timeline_builder_text(b, "aten::op0");
    for (char c = '1'; c < '8'; c++)
        timeline_builder_text(b, (char[]){ 'o', 'p', c, '\0' }); /* op + 1 .. op + 7 */
    names_of(b, names);
    for (uint32_t step = 0; step < KERNELS / A_STEP; step++) {
        uint64_t base = (uint64_t)step * A_STEP * 3000;
        struct trace_range stage = { .start_ns = base,
                                     .end_ns = base + A_STEP * 3000 - 1,
                                     .thread = 7,
                                     .name = decode,
                                     .category = TRACE_CATEGORY_STAGE,
                                     .flops = NAN,
                                     .bytes = NAN,
                                     .payload = NAN };
        fill(&v, step, names, api, op);
        timeline_builder_range(b, &stage, 1);
        timeline_builder_range(b, v.ranges, A_BATCH / 10);
        timeline_builder_launch(b, v.launches, A_BATCH);
        timeline_builder_kernel(b, v.kernels, A_BATCH);
    }
    return timeline_builder_finish(b);
}

int main(void) {
    double start = cpu_seconds();
    struct timeline *tl = build();
    double built = cpu_seconds();
    struct analysis a;
    analyze_run(tl, NULL, &a);
    double done = cpu_seconds();
    printf("%u kernels, %zu launches, %zu ranges, %zu classes, %zu occurrences\n", KERNELS, tl->launches.n,
           tl->ranges.n, a.nkernels, a.noccurrences);
    printf("timeline  %5.2f s   (records in, sorted, linked)\n", built - start);
    printf("analysis  %5.2f s   %.1f million kernels/s\n", done - built, KERNELS * 1e-6 / (done - built));
    printf("together  %5.2f s   peak memory %.2f GB   (target: under 5 s, under 2 GB)\n", done - start,
           peak_gb());
    printf("residual  %g ns of %.0f ns\n", a.conservation.kernel_residual, a.conservation.busy);
    analysis_free(&a);
    timeline_close(tl);
    return 0;
}
