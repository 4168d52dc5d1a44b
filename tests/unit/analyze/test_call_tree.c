/* Call paths that are deeper than the tree. */
#include <stdio.h>

#include "unit/analyze/scene.h"
#include "unit/test.h"

#define LEVELS 250

TEST(a_kernel_below_the_deepest_range_adds_only_its_time) {
    struct scene s;
    struct analysis a;
    char name[16];
    scene_start(&s);
    for (uint64_t i = 0; i < LEVELS; i++) {
        snprintf(name, sizeof name, "r%u", (unsigned)i);
        scene_range(&s, TRACE_CATEGORY_USER, name, 1, i, 10000 - i);
    }
    scene_kernel(&s, "k", 1, 5000, 5010, 7, 5100, 5400);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK(a.ncalls > 100);
    for (size_t i = 0; i < a.ncalls; i++) {
        CHECK(!a.calls[i].kernel);
        CHECK(a.calls[i].calls <= 1);
    }
    CHECK_NEAR(a.calls[0].device_total_ns, 300, 0);
    analysis_free(&a);
    timeline_close(tl);
}
