/* The conservation laws on random timelines: overlapping streams, several threads, devices and processes,
 * nested and crossing ranges, graphs, missing launches. Owned times are compared with those of a slow
 * reference implementation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "unit/analyze/scene.h"
#include "unit/test.h"

static uint64_t seed;
static uint64_t below(uint64_t n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

static const char *const kernel_names[] = { "gemm",
                                            "void at::native::elementwise_kernel<1, silu_kernel>(int)",
                                            "ncclDevKernel_AllReduce",
                                            "flash_fwd_kernel",
                                            "copy_kernel",
                                            "softmax" };

static void random_ranges(struct timeline_builder *b, uint64_t span) {
    static const char *const names[] = { "prefill", "decode", "sam",  "linear",
                                         "norm",    "step",   "clip", "forward" };
    for (uint64_t i = 0, n = below(20); i < n; i++) {
        uint64_t start = below(span);
        struct trace_range r = { .start_ns = start,
                                 .end_ns = start + below(span / 2),
                                 .thread = 1 + (uint32_t)below(3),
                                 .category = (uint32_t)below(4),
                                 .flags = below(5) ? 0 : TRACE_RANGE_FREE,
                                 .name = timeline_builder_text(b, names[below(8)]),
                                 .detail = below(2) ? timeline_builder_text(b, "x[1]") : 0,
                                 .flops = NAN,
                                 .bytes = NAN,
                                 .payload = NAN };
        timeline_builder_range(b, &r, 1);
    }
}

static void random_work(struct timeline_builder *b, uint64_t span, bool with_launches) {
    for (uint64_t i = 1, n = below(60); i <= n; i++) {
        uint64_t call = below(span), start = below(10) ? call + below(span / 4) : call;
        struct trace_launch l = { .start_ns = call,
                                  .end_ns = call + below(30),
                                  .thread = 1 + (uint32_t)below(3),
                                  .correlation = i,
                                  .api = timeline_builder_text(b, below(8) ? "cudaLaunchKernel"
                                                                           : "cudaGraphLaunch") };
        if (with_launches && below(10)) timeline_builder_launch(b, &l, 1);
        for (uint64_t node = 0, nodes = below(8) ? 1 : 1 + below(6); node < nodes; node++) {
            uint64_t end = start + below(span / 8);
            struct trace_kernel k = { .start_ns = start,
                                      .end_ns = end,
                                      .correlation = below(12) ? i : 0,
                                      .graph = nodes > 1,
                                      .graph_node = nodes > 1 ? node + 1 : 0,
                                      .device = (uint32_t)below(2),
                                      .stream = (uint32_t)below(3),
                                      .name = timeline_builder_text(b, kernel_names[below(6)]),
                                      .grid_x = 1 + (uint32_t)below(3),
                                      .block_x = 32 };
            timeline_builder_kernel(b, &k, 1);
            start += below(span / 10);
        }
        struct trace_copy c = {
            .start_ns = below(span), .correlation = i, .bytes = 8, .device = (uint32_t)below(2)
        };
        c.end_ns = c.start_ns + below(span / 10);
        if (!below(6)) timeline_builder_copy(b, &c, 1);
        struct trace_sync y = { .start_ns = below(span),
                                .thread = 1 + (uint32_t)below(3),
                                .sync_kind = (uint32_t)below(5) };
        y.end_ns = y.start_ns + below(span / 10);
        if (!below(6)) timeline_builder_sync(b, &y, 1);
        struct trace_token t = {
            .time_ns = below(span), .count = 1, .token_kind = (uint32_t)below(2), .thread = 1
        };
        if (!below(6)) timeline_builder_token(b, &t, 1);
    }
}

static struct timeline *random_timeline(uint64_t from) {
    seed = from;
    struct timeline_builder *b = timeline_builder_open();
    for (uint64_t p = 0, n = 1 + below(2); p < n; p++) {
        timeline_builder_process(b, p ? "b" : "a");
        timeline_builder_meta(b, "device.0.uuid", below(2) ? "GPU-one" : "GPU-other");
        random_ranges(b, 1000);
        random_work(b, 1000, below(4) != 0);
    }
    return timeline_builder_finish(b);
}

static uint32_t device_of(const struct timeline *tl, size_t kernel) {
    return tl->lanes[tl->kernels.lane[kernel]].device;
}

/* Reference: splits every nanosecond between the running kernels. Returns the busy time of all devices. */
static double shares(const struct timeline *tl, double *owned) {
    double busy = 0;
    for (uint32_t d = 0; d < tl->ndevices; d++)
        for (uint64_t t = tl->start_ns; t < tl->end_ns; t++) {
            size_t running = 0;
            for (size_t i = 0; i < tl->kernels.n; i++)
                running += device_of(tl, i) == d && tl->kernels.start_ns[i] <= t && t < tl->kernels.end_ns[i];
            busy += running > 0;
            for (size_t i = 0; running && i < tl->kernels.n; i++)
                if (device_of(tl, i) == d && tl->kernels.start_ns[i] <= t && t < tl->kernels.end_ns[i])
                    owned[i] += 1.0 / (double)running;
        }
    return busy;
}

static void check_shares(const struct timeline *tl, const struct analysis *a) {
    double *owned = xcalloc(tl->kernels.n + 1, sizeof *owned),
           *shape = xcalloc(tl->nshapes + 1, sizeof *shape), *stage = xcalloc(a->nstages + 1, sizeof *stage);
    CHECK_NEAR(a->conservation.busy, shares(tl, owned), 1e-6);
    for (size_t i = 0; i < tl->kernels.n; i++) {
        uint32_t o = a->kernel_occurrence[i];
        shape[tl->kernels.shape[i]] += owned[i];
        stage[o == ANALYSIS_NONE ? a->nstages - 1 : a->occurrences[o].stage] += owned[i];
    }
    for (size_t i = 0; i < a->nkernels; i++)
        CHECK_NEAR(a->kernels[i].owned_ns, shape[a->kernels[i].shape], 1e-6);
    for (size_t i = 0; i < a->nstages; i++) CHECK_NEAR(a->stages[i].gpu_owned_self_ns, stage[i], 1e-6);
    free(owned);
    free(shape);
    free(stage);
}

static void check_sums(const struct analysis *a) {
    double groups = 0, libraries = 0, roots = 0;
    CHECK_NEAR(a->conservation.kernel_residual, 0, 1e-6);
    CHECK_NEAR(a->conservation.stage_residual, 0, 1e-6);
    CHECK_NEAR(a->conservation.operator_residual, 0, 1e-6);
    for (size_t i = 0; i < a->ncategories; i++) groups += a->categories[i].owned_ns;
    for (size_t i = 0; i < a->nlibraries; i++) libraries += a->libraries[i].owned_ns;
    CHECK_NEAR(groups, a->conservation.busy, 1e-6);
    CHECK_NEAR(libraries, a->conservation.busy, 1e-6);
    for (size_t i = 0; i < a->nstages; i++)
        if (a->stages[i].parent == ANALYSIS_NONE) roots += a->stages[i].gpu_owned_ns;
    CHECK_NEAR(roots, a->conservation.busy, 1e-6);
}

static void check_stages(const struct analysis *a) {
    uint64_t kernels = 0;
    for (size_t i = 0; i < a->nstages; i++) {
        const struct analysis_stage *s = &a->stages[i];
        double causes = 0, categories = 0, children = 0;
        for (size_t c = 0; c < ANALYSIS_IDLE_CAUSES; c++) {
            CHECK(s->idle.ns[c] >= -1e-6);
            causes += s->idle.ns[c];
        }
        for (size_t c = 0; c < KERNEL_CATEGORY_END; c++) categories += s->category_ns[c];
        for (size_t j = 0; j < a->nstages; j++)
            if (a->stages[j].parent == i) {
                CHECK(j > i);
                children += a->stages[j].gpu_owned_ns;
            }
        if (!s->time_refused) CHECK_NEAR(causes, s->idle_ns, 1e-6);
        CHECK_NEAR(categories, s->gpu_owned_ns, 1e-6);
        CHECK_NEAR(children + s->gpu_owned_self_ns, s->gpu_owned_ns, 1e-6);
        if (s->parent == ANALYSIS_NONE) kernels += s->kernels;
    }
    CHECK_INT(kernels, a->kernels_total);
}

/* Top-level stages, the row between steps and the unrecorded time must add up to the timeline of each
 * device. */
static void check_timelines(const struct analysis *a) {
    double longest_ns = a->wall_ns;
    for (size_t d = 0; d < a->ndevices; d++) {
        double sum = a->devices[d].unrecorded_ns, busy = 0;
        for (size_t i = 0; i < a->nstages; i++) {
            const struct analysis_stage_device *on = analysis_stage_on(a, i, d);
            double causes = 0;
            for (size_t c = 0; c < ANALYSIS_IDLE_CAUSES; c++) causes += on->cause_ns[c];
            CHECK_NEAR(causes, on->idle_ns, 1e-6);
            if (a->stages[i].parent != ANALYSIS_NONE) continue;
            sum += on->busy_ns + on->idle_ns;
            busy += on->busy_ns;
        }
        CHECK_NEAR(sum, a->devices[d].timeline_ns, 1e-6);
        CHECK_NEAR(busy, a->devices[d].work_ns, 1e-6);
        longest_ns = fmax(longest_ns, a->devices[d].timeline_ns);
    }
    for (size_t i = 0; i < a->nstages; i++) {
        CHECK(isnan(a->stages[i].busy_share) || a->stages[i].busy_share <= 1);
        CHECK(isnan(a->stages[i].time_ms) || a->stages[i].time_ms * 1e6 <= longest_ns * 1.000001);
    }
    for (size_t i = 0; i < a->nfindings; i++)
        CHECK(a->findings[i].stage == ANALYSIS_NONE || isnan(a->findings[i].saving_ms) ||
              a->findings[i].saving_ms <= a->stages[a->findings[i].stage].time_ms * 1.000001);
}

static void check_operators(const struct analysis *a) {
    uint64_t kernels = 0;
    for (size_t i = 0; i < a->noperators; i++) {
        kernels += a->operators[i].kernels;
        CHECK(a->operators[i].gpu_ns + 1e-6 >= a->operators[i].gpu_self_ns || a->operators[i].calls > 1);
        if (!a->operators[i].outside) CHECK(a->operators[i].self_ns >= 0);
    }
    CHECK_INT(kernels, a->kernels_total);
    for (size_t i = 0; i < a->ndevices; i++)
        CHECK(a->devices[i].communication_hidden_ns <= a->devices[i].communication_ns);
}

TEST(analysis_conserves_gpu_time_on_random_timelines) {
    for (uint64_t i = 0; i < 300; i++) {
        struct timeline *tl = random_timeline(i * 977 + 1);
        struct analysis a;
        analyze_run(tl, NULL, &a);
        check_shares(tl, &a);
        check_sums(&a);
        check_stages(&a);
        check_timelines(&a);
        check_operators(&a);
        analysis_free(&a);
        timeline_close(tl);
    }
}
