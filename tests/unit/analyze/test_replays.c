#include <string.h>

#include "analyze/analyze.h"
#include "unit/test.h"

/* Two replays with three kernels each, then four replays without kernels, 2 ms apart. */
static struct timeline *sampled_timeline(void) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "a.ipt");
    timeline_builder_meta(b, "capture.from", "1000000");
    timeline_builder_meta(b, "capture.window", "1000000 9000000");
    uint32_t api = timeline_builder_text(b, "cuGraphLaunch"), name = timeline_builder_text(b, "gemm");
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t at = 1000000 + i * 3000000;
        struct trace_launch l = {
            .start_ns = at, .end_ns = at + 1000, .correlation = i + 1, .thread = 1, .api = api
        };
        timeline_builder_launch(b, &l, 1);
        for (uint64_t n = 0; n < 3; n++) {
            struct trace_kernel k = { .start_ns = at + 5000 + n * 1000,
                                      .end_ns = at + 5900 + n * 1000,
                                      .correlation = i + 1,
                                      .graph = 7,
                                      .graph_node = n + 1,
                                      .name = name };
            timeline_builder_kernel(b, &k, 1);
        }
    }
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t at = 10000000 + i * 2000000;
        struct trace_replay r = {
            .start_ns = at, .end_ns = at + 1000, .correlation = 10 + i, .graph = 7, .thread = 1
        };
        timeline_builder_replay(b, &r, 1);
    }
    return timeline_builder_finish(b);
}

TEST(replays_without_kernels_are_counted_and_timed) {
    struct timeline *tl = sampled_timeline();
    struct analysis a;
    CHECK_INT(tl->replays.n, 4);
    CHECK_INT(tl->end_ns, 16001000);
    analyze_run(tl, NULL, &a);
    CHECK_INT(a.ngraphs, 1);
    CHECK_INT(a.graphs[0].graph, 7);
    CHECK_INT(a.graphs[0].recorded, 2);
    CHECK_INT(a.graphs[0].counted, 4);
    CHECK_NEAR(a.graphs[0].period_ns, 2e6, 1e-9);
    bool noted = false;
    for (size_t i = 0; i < a.nnotes; i++)
        noted |=
            strstr(a.notes[i].text, "CUDA graph 7: the kernels of 2 of 6 replays were recorded; one replay "
                                    "per 2 ms") != NULL;
    CHECK(noted);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(a_cut_keeps_replays) {
    struct timeline *tl = sampled_timeline();
    timeline_cut(tl, 0, 5000000);
    CHECK_INT(tl->replays.n, 4);
    CHECK_INT(tl->kernels.n, 6);
    timeline_close(tl);
}
