/* Call paths that are deeper than the tree, and trees with the maximum number of nodes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
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
    CHECK(scene_has_note(&a, "call tree: the time of 51 ranges and kernels was added to their callers"));
    analysis_free(&a);
    timeline_close(tl);
}

#define FRAMES 190
#define STACKS 5600 /* STACKS * FRAMES is larger than the maximum of 1,048,576 nodes */

/* An operator with a Python stack that no other operator has. */
static void add_stack(struct scene *s, unsigned number, uint64_t start) {
    struct strbuf frames = STRBUF_INIT;
    strbuf_addf(&frames, "f%u", number);
    for (int i = 1; i < FRAMES; i++) strbuf_addstr(&frames, ";g");
    struct trace_range r = { .start_ns = start,
                             .end_ns = start + 5,
                             .thread = 1,
                             .category = TRACE_CATEGORY_OP,
                             .name = timeline_builder_text(s->b, "op"),
                             .stack = timeline_builder_text(s->b, frames.buf),
                             .flops = NAN,
                             .bytes = NAN,
                             .payload = NAN };
    timeline_builder_range(s->b, &r, 1);
    strbuf_free(&frames);
}

TEST(a_full_call_tree_still_adds_to_known_paths) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_USER, "known", 1, 0, 1000);
    for (unsigned i = 0; i < STACKS; i++) add_stack(&s, i, 2000 + 10 * i);
    scene_range(&s, TRACE_CATEGORY_USER, "known", 1, 100000, 103000);
    scene_range(&s, TRACE_CATEGORY_USER, "new", 1, 104000, 104500);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(a.ncalls, 1u << 20);
    CHECK_STR(a.calls[1].name, "known");
    CHECK_INT(a.calls[1].calls, 2);
    CHECK_NEAR(a.calls[1].host_ns, 4000, 0);
    CHECK(scene_has_note(&a, "call tree: the time of "));
    analysis_free(&a);
    timeline_close(tl);
}
