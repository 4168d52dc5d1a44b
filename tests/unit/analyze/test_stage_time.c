/* The time of stages: a partition of each device's timeline. */
#include <math.h>
#include <string.h>

#include "analyze/counters.h"
#include "analyze/totals.h"
#include "unit/analyze/scene.h"
#include "unit/test.h"

#define US 1000ull
#define MS 1000000ull

static const struct analysis_stage_device *on(const struct analysis *a, const char *path, size_t device) {
    return analysis_stage_on(a, (size_t)(scene_stage(a, path) - a->stages), device);
}

/* The range is open for 100 us on the host; its kernels run for 900 us, mostly after its end. */
TEST(a_step_lasts_as_long_as_its_kernels_run) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t t = i * 300 * US, k = 10 * US + i * 900 * US;
        scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, t, t + 100 * US);
        scene_kernel(&s, "k", 1, t, t + 5 * US, 7, k, k + 900 * US);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "decode");
    CHECK_NEAR(d->time_ms, (3 * 900 + 10) / 3.0 / 1e3, 1e-9);
    CHECK_NEAR(d->busy_share, 2700.0 / 2710, 1e-9);
    CHECK_NEAR(d->host_each_ns.mean, 100e3, 0);
    CHECK_NEAR(d->span_ns.mean, 900e3, 0);
    CHECK_NEAR(d->queue_ns.max, (10 + 1800 - 600) * 1e3, 0);
    analysis_free(&a);
    timeline_close(tl);
}

/* The GPU's copy of an annotation, as torch.profiler writes it. */
static void mirror(struct scene *s, const char *name, uint64_t start, uint64_t end) {
    struct trace_range r = { .start_ns = start,
                             .end_ns = end,
                             .thread = 7,
                             .flags = TRACE_RANGE_FREE,
                             .category = TRACE_CATEGORY_USER,
                             .name = timeline_builder_text(s->b, name),
                             .domain = timeline_builder_text(s->b, "gpu_user_annotation"),
                             .flops = NAN,
                             .bytes = NAN,
                             .payload = NAN };
    timeline_builder_range(s->b, &r, 1);
}

static void kernel_without_launch(struct scene *s, uint64_t start, uint64_t end) {
    struct trace_kernel k = { .start_ns = start,
                              .end_ns = end,
                              .stream = 7,
                              .correlation = 900000 + start,
                              .name = timeline_builder_text(s->b, "lost") };
    timeline_builder_kernel(s->b, &k, 1);
}

/* Two steps that run after their ranges have closed. The kernels in the middle of each have no launch. */
static void lost_launches(struct scene *s) {
    scene_start(s);
    scene_range(s, TRACE_CATEGORY_USER, "decode", 1, 0, 100 * US);
    scene_range(s, TRACE_CATEGORY_USER, "prefill", 1, 100 * US, 200 * US);
    scene_kernel(s, "k", 1, 0, 5 * US, 7, 210 * US, 220 * US);
    kernel_without_launch(s, 220 * US, 290 * US);
    scene_kernel(s, "k", 1, 50 * US, 55 * US, 7, 290 * US, 300 * US);
    scene_kernel(s, "k", 1, 100 * US, 105 * US, 7, 300 * US, 310 * US);
    kernel_without_launch(s, 310 * US, 390 * US);
    scene_kernel(s, "k", 1, 150 * US, 155 * US, 7, 390 * US, 400 * US);
    kernel_without_launch(s, 400 * US, 450 * US); /* after both */
}

TEST(copies_of_annotations_say_where_kernels_without_launch_belong) {
    struct scene s;
    struct analysis a;
    lost_launches(&s);
    mirror(&s, "decode", 210 * US, 300 * US);
    mirror(&s, "prefill", 300 * US, 400 * US);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_NEAR(scene_stage(&a, "decode")->gpu_busy_ns, 90e3, 0);
    CHECK_NEAR(scene_stage(&a, "prefill")->gpu_busy_ns, 100e3, 0);
    CHECK_INT(scene_stage(&a, "decode")->kernels, 3);
    CHECK_INT(scene_stage(&a, "between steps")->kernels, 1);
    analysis_free(&a);
    timeline_close(tl);

    lost_launches(&s); /* two copies of one range on one stream are no evidence */
    mirror(&s, "decode", 210 * US, 250 * US);
    mirror(&s, "decode", 260 * US, 300 * US);
    mirror(&s, "prefill", 300 * US, 400 * US);
    tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(scene_stage(&a, "decode")->kernels, 2);
    CHECK_INT(scene_stage(&a, "prefill")->kernels, 3);
    analysis_free(&a);
    timeline_close(tl);
}

/* Two copies of equal depth cover the kernel, and one copy of a range inside the first. */
TEST(the_innermost_copy_decides_although_outer_copies_overlap) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 100 * US);
    scene_range(&s, TRACE_CATEGORY_STAGE, "prefill", 1, 100 * US, 200 * US);
    scene_range(&s, TRACE_CATEGORY_STAGE, "sampling", 1, 10 * US, 90 * US);
    kernel_without_launch(&s, 320 * US, 330 * US);
    mirror(&s, "decode", 310 * US, 400 * US);
    mirror(&s, "prefill", 315 * US, 400 * US);
    mirror(&s, "sampling", 316 * US, 340 * US);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(scene_stage(&a, "decode/sampling")->kernels, 1);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(copies_of_annotations_on_the_device_are_not_steps) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_USER, "decode", 1, 0, 100 * US);
    scene_kernel(&s, "k", 1, 0, 5 * US, 7, 10 * US, 100 * US);
    mirror(&s, "decode", 10 * US, 100 * US);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(scene_stage(&a, "decode")->occurrences, 1);
    CHECK_NEAR(scene_stage(&a, "decode")->time_ms, 0.1, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

/* Launched at 8 us, started at 2 ms: unrecorded work ran in between. */
TEST(a_launched_kernel_that_waits_for_long_is_not_idle_time) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 4 * MS);
    scene_kernel(&s, "k", 1, 0, 2 * US, 7, 4 * US, 10 * US);
    scene_kernel(&s, "k", 1, 8 * US, 13 * US, 7, 2 * MS, 3 * MS);
    scene_kernel(&s, "k", 1, 3100 * US, 3110 * US, 7, 3116 * US, 4 * MS); /* a launch takes 6 us */
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "decode");
    CHECK_NEAR(a.devices[0].launch_delay_ns, 6e3, 0);
    CHECK_NEAR(a.devices[0].unrecorded_limit_ns, 60e3, 0);
    CHECK_NEAR(a.devices[0].unrecorded_ns, 1990e3, 0); /* from the launch call on */
    CHECK_NEAR(d->idle_ns, 4e3 + 116e3, 0);
    CHECK_NEAR(d->gpu_busy_ns + d->idle_ns + a.devices[0].unrecorded_ns, 4e6, 0);
    analysis_free(&a);
    timeline_close(tl);
}

/* The first launch of the trace waits for work that was launched before recording began, so the device was
 * not idle before the launch either. */
TEST(the_time_before_a_first_launch_that_waits_for_long_is_not_idle_time) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 4 * MS);
    scene_kernel(&s, "k", 1, 500 * US, 505 * US, 7, 2 * MS, 3 * MS);
    scene_kernel(&s, "k", 1, 3100 * US, 3110 * US, 7, 3116 * US, 4 * MS);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_NEAR(a.devices[0].unrecorded_ns, 2e6, 0);
    CHECK_NEAR(scene_stage(&a, "decode")->idle_ns, 116e3, 0);
    analysis_free(&a);
    timeline_close(tl);
}

/* Later steps too, unless the host has waited for the device since its last recorded work: then no earlier
 * work is left. */
TEST(the_time_before_a_launch_is_idle_time_if_the_host_has_waited_for_the_device) {
    for (int waited = 0; waited < 2; waited++) {
        struct scene s;
        struct analysis a;
        scene_start(&s);
        scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 3020 * US);
        scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 3050 * US, 6 * MS);
        for (uint64_t i = 0; i < 4; i++) /* kernels usually start 1 us after their launch call */
            scene_kernel(&s, "k", 1, i * 20 * US, (i * 20 + 5) * US, 7, (i * 20 + 6) * US,
                         i == 3 ? 3 * MS : (i * 20 + 10) * US);
        if (waited) scene_sync(&s, 1, MS, 3010 * US);
        scene_kernel(&s, "k", 1, 5 * MS, 5005 * US, 7, 5200 * US, 6 * MS);
        struct timeline *tl = timeline_builder_finish(s.b);
        analyze_run(tl, NULL, &a);
        CHECK_NEAR(a.devices[0].unrecorded_ns, waited ? 200e3 : 2150e3, 0);
        analysis_free(&a);
        timeline_close(tl);
    }
}

/* The first launch of a module takes long, and the device waits for it. */
TEST(a_long_launch_call_is_idle_time) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 4 * MS);
    scene_kernel(&s, "k", 1, 0, 2 * MS, 7, 2006 * US, 4 * MS);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_NEAR(a.devices[0].unrecorded_ns, 0, 0);
    CHECK_NEAR(scene_stage(&a, "decode")->idle_ns, 2006e3, 0);
    analysis_free(&a);
    timeline_close(tl);
}

/* A program runs ahead: the range of a step has closed when its kernels run. The gap between them belongs to
 * the step that launched the second one, and not to the next step, whose range is open at that time. */
TEST(a_gap_before_a_kernel_that_was_launched_earlier_belongs_to_its_step) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "prefill", 1, 0, 50 * US);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 60 * US, 400 * US);
    scene_kernel(&s, "k", 1, 0, 5 * US, 7, 10 * US, 200 * US);
    scene_kernel(&s, "k", 1, 20 * US, 25 * US, 7, 203 * US, 300 * US);
    scene_kernel(&s, "k", 1, 350 * US, 353 * US, 7, 360 * US, 400 * US);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_NEAR(on(&a, "prefill", 0)->idle_ns, 10e3 + 3e3, 0);
    CHECK_NEAR(on(&a, "decode", 0)->idle_ns, 60e3, 0);
    analysis_free(&a);
    timeline_close(tl);
}

/* Two concurrent stages on two threads: overlapping work is split evenly, and idle time belongs to the
 * stage of the thread that ends it. */
TEST(stages_that_overlap_share_the_device) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "prefill", 1, 0, 400 * US);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 2, 0, 400 * US);
    scene_kernel(&s, "a", 1, 5 * US, 8 * US, 7, 10 * US, 200 * US);
    scene_kernel(&s, "b", 2, 90 * US, 95 * US, 8, 100 * US, 300 * US); /* 100 us with the other */
    scene_kernel(&s, "b", 2, 330 * US, 335 * US, 8, 340 * US, 400 * US);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_NEAR(on(&a, "prefill", 0)->busy_ns, 90e3 + 50e3, 1e-6);
    CHECK_NEAR(on(&a, "prefill", 0)->idle_ns, 10e3, 1e-6);
    CHECK_NEAR(on(&a, "decode", 0)->busy_ns, 50e3 + 100e3 + 60e3, 1e-6);
    CHECK_NEAR(on(&a, "decode", 0)->idle_ns, 40e3, 1e-6);
    CHECK_NEAR(a.devices[0].timeline_ns, 400e3, 0);
    analysis_free(&a);
    timeline_close(tl);
}

/* Three steps of `step_us`, each with a kernel that takes 40% of it. */
static void add_rank(struct scene *s, uint64_t step_us, uint64_t offset_us) {
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t t = (offset_us + i * step_us) * US;
        scene_range(s, TRACE_CATEGORY_STAGE, "step", 1, t, t + step_us * US);
        scene_kernel(s, "k", 1, t + 3 * US, t + 6 * US, 7, t + 10 * US, t + (10 + step_us * 4 / 10) * US);
    }
}

static void next_rank(struct scene *s, const char *rank) {
    timeline_builder_process(s->b, rank);
    timeline_builder_meta(s->b, "process.rank", rank);
    timeline_builder_meta(s->b, "device.0.name", "NVIDIA H200");
    timeline_builder_meta(s->b, "device.0.uuid", rank);
}

TEST(a_second_rank_changes_no_figure_of_the_first) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    timeline_builder_meta(s.b, "device.0.uuid", "0");
    add_rank(&s, 1000, 0);
    next_rank(&s, "1");
    add_rank(&s, 500, 100);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "step");
    CHECK_INT(d->devices, 2);
    CHECK_NEAR(on(&a, "step", 0)->busy_ns, 1200e3, 0);
    CHECK_NEAR(on(&a, "step", 0)->idle_ns, 1800e3, 0);
    CHECK_INT(on(&a, "step", 0)->steps, 3);
    CHECK_NEAR(a.devices[0].timeline_ns, 3e6, 0);
    CHECK_NEAR(a.devices[1].timeline_ns, 1.5e6, 0);
    CHECK_NEAR(d->time_ms, (1.0 + 0.5) / 2, 1e-9); /* the mean over the ranks */
    CHECK_NEAR(d->busy_share, 0.4, 1e-9);
    CHECK(strstr(d->time_source, "2 devices") != NULL);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(an_idle_device_changes_no_figure) {
    struct analysis_stage of[2];
    for (int i = 0; i < 2; i++) {
        struct scene s;
        struct analysis a;
        scene_start(&s);
        if (i) timeline_builder_meta(s.b, "device.1.name", "NVIDIA H200");
        add_rank(&s, 1000, 0);
        if (i) /* this device gets a copy but no kernel */
            timeline_builder_copy(
                s.b, &(struct trace_copy){ .start_ns = 20 * US, .end_ns = 30 * US, .device = 1, .stream = 3 },
                1);
        struct timeline *tl = timeline_builder_finish(s.b);
        analyze_run(tl, NULL, &a);
        of[i] = *scene_stage(&a, "step");
        analysis_free(&a);
        timeline_close(tl);
    }
    CHECK_INT(of[1].devices, 1);
    CHECK_NEAR(of[0].time_ms, of[1].time_ms, 0);
    CHECK_NEAR(of[0].busy_share, of[1].busy_share, 0);
    CHECK_NEAR(of[0].idle_ns, of[1].idle_ns, 0);
}

/* A step of 1 ms on a thread, with a kernel of 400 us on a device. */
static void add_step_on(struct scene *s, uint32_t device, uint32_t thread, uint64_t start) {
    s->device = device;
    scene_range(s, TRACE_CATEGORY_STAGE, "step", thread, start, start + MS);
    scene_kernel(s, "k", thread, start + 3 * US, start + 6 * US, 7 + thread, start + 10 * US,
                 start + 410 * US);
}

TEST(steps_of_a_thread_count_on_the_gpu_that_it_uses) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t i = 0; i < 3; i++) {
        add_step_on(&s, 0, 1, i * MS);
        add_step_on(&s, 1, 2, i * MS);
    }
    /* a copy from the first GPU, made by the second one's thread */
    struct trace_launch call = { .start_ns = 450 * US,
                                 .end_ns = 455 * US,
                                 .thread = 2,
                                 .correlation = 99,
                                 .api = timeline_builder_text(s.b, "cudaMemcpyAsync") };
    struct trace_copy copy = {
        .start_ns = 460 * US, .end_ns = 470 * US, .correlation = 99, .device = 0, .stream = 9
    };
    timeline_builder_launch(s.b, &call, 1);
    timeline_builder_copy(s.b, &copy, 1);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "step");
    CHECK_INT(d->devices, 2);
    CHECK_INT(on(&a, "step", 0)->steps, 3);
    CHECK_INT(on(&a, "step", 1)->steps, 3);
    CHECK_NEAR(d->time_ms, 1, 1e-9);
    CHECK_NEAR(d->at_once, 1, 1e-9);
    CHECK(!scene_has_note(&a, "open at once"));
    analysis_free(&a);
    timeline_close(tl);
}

/* The steps of one thread use two GPUs in turn: each GPU is idle in every second step. */
TEST(steps_of_a_thread_count_on_all_gpus_that_it_uses) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t i = 0; i < 4; i++) add_step_on(&s, i % 2, 1, i * MS);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(on(&a, "step", 0)->steps, 4);
    CHECK_INT(on(&a, "step", 1)->steps, 4);
    CHECK_NEAR(scene_stage(&a, "step")->time_ms, 1, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(steps_that_run_at_once_on_a_gpu_have_a_part_of_its_time) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t i = 0; i < 3; i++)
        for (uint32_t thread = 1; thread <= 2; thread++) add_step_on(&s, 0, thread, i * MS);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "step");
    CHECK_NEAR(d->time_ms, 0.5, 1e-9);
    CHECK_NEAR(d->at_once, 2, 1e-9);
    CHECK_NEAR(d->host_each_ns.mean, 1e6, 0);
    CHECK(scene_has_note(&a, "step: while one of its steps is open, 2.0 steps are open at once"));
    analysis_free(&a);
    timeline_close(tl);
}

/* Ranges that overlap without nesting: one began in the first step and ends in the second. */
TEST(a_range_that_outlasts_its_step_hides_no_later_step) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, 0, 100 * US);
    scene_range(&s, TRACE_CATEGORY_OP, "late", 1, 50 * US, 150 * US);
    scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, 110 * US, 200 * US);
    scene_kernel(&s, "k", 1, 10 * US, 15 * US, 7, 20 * US, 90 * US);
    scene_kernel(&s, "k", 1, 104 * US, 106 * US, 7, 108 * US, 120 * US); /* in no step */
    scene_kernel(&s, "k", 1, 130 * US, 135 * US, 7, 140 * US, 190 * US);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(scene_stage(&a, "step")->occurrences, 2);
    CHECK_INT(scene_stage(&a, "step")->kernels, 2);
    CHECK_INT(scene_stage(&a, "between steps")->kernels, 1);
    analysis_free(&a);
    timeline_close(tl);
}

/* The second step starts the moment the first one ends, inside a Python frame that never returned. */
TEST(a_step_that_starts_when_another_one_ends_is_not_inside_it) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, 0, 100 * US);
    scene_range(&s, TRACE_CATEGORY_MODULE, "next", 1, 10 * US, 180 * US);
    scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, 100 * US, 200 * US);
    scene_kernel(&s, "k", 1, 10 * US, 15 * US, 7, 20 * US, 90 * US);
    scene_kernel(&s, "k", 1, 110 * US, 115 * US, 7, 120 * US, 190 * US);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(scene_stage(&a, "step")->occurrences, 2);
    CHECK_INT(scene_stage(&a, "step")->kernels, 2);
    CHECK_NEAR(scene_stage(&a, "step")->time_ms, 0.1, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

/* Long kernels with long gaps: no specific rule about idle time applies, but there must be a finding. */
TEST(a_device_that_idles_gets_an_explanation) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 4 * MS);
    for (uint64_t i = 0; i < 20; i++) { /* a gap before every second kernel: only the last rule matches */
        uint64_t t = i * 200 * US;
        scene_kernel(&s, "k", 1, t + 60 * US, t + 65 * US, 7, t + 70 * US, t + 130 * US);
        scene_kernel(&s, "k", 1, t + 65 * US, t + 66 * US, 7, t + 130 * US, t + 190 * US);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK(scene_stage(&a, "decode")->busy_share < 0.85);
    const struct analysis_finding *f = scene_finding(&a, "idle");
    CHECK(f != NULL);
    CHECK_NEAR(f->saving_ms, 1.6, 1e-9);
    CHECK(strstr(f->advice, "one cause") != NULL);
    analysis_free(&a);
    timeline_close(tl);
}

/* Long kernels do not hide the launches if the host is late before most of them. */
TEST(gaps_before_most_kernels_are_launch_bound) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 4 * MS);
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t t = i * 200 * US;
        scene_kernel(&s, "k", 1, t + 60 * US, t + 65 * US, 7, t + 70 * US, t + 190 * US);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_finding *f = scene_finding(&a, "launch-bound");
    CHECK(f != NULL);
    /* without the 70 us before the first kernel and the 10 us after the last */
    CHECK_NEAR(f->saving_ms, 1.52, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

/* The host is away for 10 ms, then makes a short call and launches: a graph removes only the time after the
 * call. */
TEST(a_graph_does_not_remove_the_absence_of_the_host) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t t = i * 12 * MS;
        scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, t, t + 12 * MS);
        timeline_builder_launch(s.b,
                                &(struct trace_launch){ .start_ns = t + 11 * MS,
                                                        .end_ns = t + 11 * MS + 2 * US,
                                                        .thread = 1,
                                                        .correlation = 1000 + i,
                                                        .api = timeline_builder_text(s.b, "cudaMalloc") },
                                1);
        for (uint64_t k = 0; k < 10; k++) {
            uint64_t call = t + 11 * MS + 20 * US + k * 90 * US;
            scene_kernel(&s, "k", 1, call, call + 5 * US, 7, call + 8 * US, call + 48 * US);
        }
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *st = scene_stage(&a, "step");
    const struct analysis_finding *f = scene_finding(&a, "host-busy-elsewhere");
    CHECK(f && f->saving_ms > 10.5 && f->saving_ms < 11.2);
    CHECK(scene_finding(&a, "between-steps") == NULL); /* the same time */
    CHECK(st->idle.graph_removable_ns / 20 < 1 * MS);
    double sum = 0;
    for (size_t i = 0; i < a.nfindings; i++) sum += a.findings[i].saving_ms;
    CHECK(sum <= st->idle_ns / 20 * 1e-6);
    analysis_free(&a);
    timeline_close(tl);
}

/* A loader prepares the next input for 50 ms after a synchronisation. */
TEST(idle_time_after_a_synchronisation_is_named_by_the_hosts_work) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, 0, 400 * MS);
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t t = i * 100 * MS;
        scene_range(&s, TRACE_CATEGORY_USER, "enumerate(DataLoader)#next", 1, t + 1 * MS, t + 51 * MS);
        scene_range(&s, TRACE_CATEGORY_USER, "resize", 1, t + 2 * MS, t + 50 * MS);
        scene_range(&s, TRACE_CATEGORY_USER, "crop", 1, t + 10 * MS, t + 20 * MS);
        scene_kernel(&s, "k", 1, t + 51 * MS, t + 51 * MS + 5 * US, 7, t + 51 * MS + 10 * US, t + 99 * MS);
        scene_sync(&s, 1, t + 52 * MS, t + 100 * MS);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *step = scene_stage(&a, "step");
    CHECK_NEAR(step->idle.ns[ANALYSIS_IDLE_SYNC] / 1e6, 3, 1e-6);
    const struct analysis_finding *f = scene_finding(&a, "host-busy-elsewhere");
    CHECK(f != NULL);
    CHECK(strstr(f->title, "mostly while the host is in `resize`") != NULL);
    CHECK(strstr(f->advice, "num_workers") != NULL);
    CHECK(scene_finding(&a, "synchronisation") == NULL);
    analysis_free(&a);
    timeline_close(tl);
}

/* Of the 20 ms without work, the host is in `resize` for 8 ms. */
TEST(the_hosts_work_in_less_than_half_of_the_idle_time_is_a_part_of_it) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, 0, 30 * MS);
    scene_range(&s, TRACE_CATEGORY_USER, "resize", 1, 0, 8 * MS);
    scene_kernel(&s, "k", 1, 8 * MS, 8 * MS + 5 * US, 7, 8 * MS + 10 * US, 18 * MS);
    scene_kernel(&s, "k", 1, 30 * MS - 20 * US, 30 * MS - 15 * US, 7, 30 * MS - 10 * US, 30 * MS);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_finding *f = scene_finding(&a, "host-busy-elsewhere");
    CHECK(f != NULL);
    CHECK(strstr(f->title, "for 20.0 ms, partly while the host is in `resize`") != NULL);
    analysis_free(&a);
    timeline_close(tl);
}

/* Steps with 1 ms of work every 10 ms. Between them, another kernel runs for 3 ms. */
TEST(the_wait_between_steps_is_the_idle_time_while_no_step_is_open) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t t = 0; t < 100 * MS; t += 10 * MS) {
        scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, t, t + MS);
        scene_kernel(&s, "k", 1, t, t + 3 * US, 7, t + 5 * US, t + MS);
        scene_kernel(&s, "k", 1, t + 3 * MS - 5 * US, t + 3 * MS - 2 * US, 7, t + 3 * MS, t + 6 * MS);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_finding *f = scene_finding(&a, "between-steps");
    CHECK(f != NULL);
    CHECK(strstr(f->evidence, "idle for 6000.0 us on average") != NULL); /* not the 5 us in the step */
    CHECK_NEAR(f->saving_ms, 9 * 6.0 / 10, 1e-9);                        /* 9 gaps of 10 steps */
    /* of 1 ms in the step and 6 ms of idle time outside of steps, 2 ms after the last one */
    CHECK_NEAR(f->saving_percent, 100 * (9 * 6.0) / (10 + 9 * 6 + 2), 1e-6);
    analysis_free(&a);
    timeline_close(tl);
}

/* The range of a step begins 6 ms before its first kernel, and ends 2 ms after its last one. */
TEST(the_wait_between_steps_does_not_contain_idle_time_of_a_step) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t t = 0; t < 100 * MS; t += 10 * MS) {
        scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, t, t + 9 * MS);
        scene_kernel(&s, "k", 1, t + 6 * MS, t + 6 * MS + 3 * US, 7, t + 6 * MS + 5 * US, t + 7 * MS);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_finding *f = scene_finding(&a, "between-steps");
    CHECK(f != NULL);
    CHECK_NEAR(f->saving_ms, 9 * 1.0 / 10, 1e-9);
    double idle_ms = 0;
    for (size_t i = 0; i < a.nfindings; i++)
        if (strcmp(a.findings[i].rule, "between-steps") != 0 && a.findings[i].stage == f->stage)
            idle_ms += a.findings[i].saving_ms;
    CHECK(idle_ms > 0 && idle_ms <= scene_stage(&a, "decode")->idle_ns * 1e-6 / 10 + 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

static void add_call(struct scene *s, const char *api, uint64_t start_ns, uint64_t end_ns) {
    timeline_builder_launch(s->b,
                            &(struct trace_launch){ .start_ns = start_ns,
                                                    .end_ns = end_ns,
                                                    .thread = 1,
                                                    .correlation = 7777,
                                                    .api = timeline_builder_text(s->b, api) },
                            1);
}

/* Creating the context takes 2 s, which no synchronisation explains. */
TEST(idle_time_in_a_long_call_is_named_by_the_call) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, 0, 3000 * MS);
    scene_range(&s, TRACE_CATEGORY_USER, "aten::empty", 1, 10 * MS, 2100 * MS);
    add_call(&s, "cudaDeviceGetStreamPriorityRange", 20 * MS, 2020 * MS);
    scene_kernel(&s, "k", 1, 2050 * MS, 2050 * MS + 5 * US, 7, 2050 * MS + 10 * US, 3000 * MS);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_NEAR(scene_stage(&a, "step")->idle.ns[ANALYSIS_IDLE_SYNC], 0, 0);
    const struct analysis_finding *f = scene_finding(&a, "host-busy-elsewhere");
    CHECK(f != NULL);
    CHECK(strstr(f->title, "`cudaDeviceGetStreamPriorityRange`") != NULL);
    CHECK(strstr(f->advice, "warm up") != NULL);
    analysis_free(&a);
    timeline_close(tl);
}

/* Two steps of 10 ms, each with 4 ms of communication, of which 3 ms run alone. */
TEST(exposed_communication_is_a_saving_per_step) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t t = 0; t < 20 * MS; t += 10 * MS) {
        scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, t, t + 10 * MS);
        scene_kernel(&s, "k", 1, t, t + 5 * US, 7, t + 10 * US, t + 7 * MS);
        scene_kernel(&s, "ncclDevKernel_AllReduce_Sum_bf16", 1, t + 6 * US, t + 9 * US, 8, t + 6 * MS,
                     t + 10 * MS);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_finding *f = scene_finding(&a, "exposed-communication");
    CHECK(f != NULL);
    CHECK_NEAR(f->saving_ms, 3, 1e-9);
    CHECK_NEAR(f->saving_percent, 30, 1e-6);
    analysis_free(&a);
    timeline_close(tl);
}

static void sample(struct scene *s, uint32_t device, uint64_t from, uint64_t to, double sm) {
    timeline_builder_sample(
        s->b,
        &(struct trace_sample){
            .start_ns = from,
            .end_ns = to,
            .device = device,
            .metrics = timeline_builder_text(s->b, "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"),
            .v0 = sm },
        1);
}

TEST(counters_of_a_stage_are_those_of_the_gpus_it_runs_on) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    timeline_builder_meta(s.b, "device.1.name", "NVIDIA H200");
    add_rank(&s, 1000, 0);
    timeline_builder_kernel(s.b, /* outside of stages, on the other GPU */
                            &(struct trace_kernel){ .start_ns = 5 * MS,
                                                    .end_ns = 6 * MS,
                                                    .device = 1,
                                                    .stream = 3,
                                                    .name = timeline_builder_text(s.b, "x") },
                            1);
    for (uint64_t i = 0; i < 3; i++) {
        sample(&s, 0, i * MS, (i + 1) * MS, 80);
        sample(&s, 1, i * MS, (i + 1) * MS, 0);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct counter_means *m = scene_stage(&a, "step")->counters;
    CHECK(m != NULL);
    CHECK_NEAR(m->mean[COUNTER_SM], 80, 1e-6);
    CHECK_NEAR(m->covered, 1, 1e-6);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(energy_outside_of_the_samples_is_unknown) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    add_rank(&s, 1000, 0);
    for (uint64_t i = 0; i < 4; i++) /* 1 ms apart, from just after the last step */
        timeline_builder_power(s.b,
                               &(struct trace_power){ .time_ns = (3 + i) * MS + 100,
                                                      .energy_mj = 1000 + i * 300,
                                                      .power_mw = 300000 },
                               1);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK(isnan(scene_stage(&a, "step")->joules));
    analysis_free(&a);
    timeline_close(tl);
}

static size_t notes_about(const struct analysis *a, const char *start) {
    size_t n = 0;
    for (size_t i = 0; i < a->nnotes; i++)
        n += strncmp(a->notes[i].text, start, strlen(start)) == 0 && strstr(a->notes[i].text, "missed peaks");
    return n;
}

/* The energy counter gives 400 W, the samples 300 W at most. Another GPU was sampled, but the stage does not
 * use it. */
TEST(a_mean_power_above_the_highest_sample_is_explained) {
    for (uint64_t counter_mj = 300; counter_mj <= 400; counter_mj += 100) {
        struct scene s;
        struct analysis a;
        scene_start(&s);
        add_rank(&s, 1000, 0);
        for (uint64_t i = 0; i < 40; i++) {
            struct trace_power power[2] = {
                { .time_ns = i * 100 * US, .energy_mj = 1000 + i * counter_mj / 10, .power_mw = 300000 }
            };
            power[1] = power[0];
            power[1].device = 1;
            timeline_builder_power(s.b, power, 2);
        }
        struct timeline *tl = timeline_builder_finish(s.b);
        analyze_run(tl, NULL, &a);
        bool above = counter_mj > 300;
        CHECK_NEAR(a.powers[0].watts_max, 300, 1e-9);
        CHECK_NEAR(a.powers[0].watts_mean, (double)counter_mj, 1e-6);
        CHECK_NEAR(scene_stage(&a, "step")->watts, (double)counter_mj, 1e-6);
        CHECK_INT(notes_about(&a, "device 0"), above);
        CHECK_INT(notes_about(&a, "step"), above);
        analysis_free(&a);
        timeline_close(tl);
    }
}

/* Three steps with 10 kernels and one token each. Of a fourth step, the trace contains the launches and 4
 * kernels. */
TEST(a_step_in_which_recording_ended_is_in_no_figure_per_token) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t t = i * 200 * US;
        scene_range(&s, TRACE_CATEGORY_USER, "step[DECODE bs=1]", 1, t, t + 200 * US);
        for (uint64_t k = 0; k < (i < 3 ? 10 : 4); k++)
            scene_kernel(&s, "k", 1, t + k * 10 * US, t + k * 10 * US + 2 * US, 7, t + k * 10 * US + 4 * US,
                         t + k * 10 * US + 9 * US);
    }
    timeline_builder_launch(s.b, /* its kernel did not run before the end */
                            &(struct trace_launch){ .start_ns = 700 * US,
                                                    .end_ns = 702 * US,
                                                    .thread = 1,
                                                    .correlation = 999,
                                                    .api = timeline_builder_text(s.b, "cudaLaunchKernel") },
                            1);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "decode");
    CHECK_NEAR(d->tokens_out, 3, 0);
    CHECK_STR(d->time_source, "mean of 3 occurrences in the trace");
    CHECK_NEAR(d->kernels_per_token, 10, 1e-9);
    CHECK_NEAR(d->launches_per_token, 10, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

/* torch.profiler opens one more annotation after the last step, as in hta_amd_mi250. */
TEST(an_empty_last_step_is_not_counted) {
    for (int sub = 0; sub < 2; sub++) {
        struct scene s;
        struct analysis a;
        scene_start(&s);
        add_rank(&s, 1000, 0);
        scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, 3 * MS, 3 * MS + 50 * US);
        if (sub) scene_range(&s, TRACE_CATEGORY_STAGE, "sampling", 1, 3 * MS, 3 * MS + 40 * US);
        struct timeline *tl = timeline_builder_finish(s.b);
        analyze_run(tl, NULL, &a);
        const struct analysis_stage *d = scene_stage(&a, "step");
        CHECK_INT(d->occurrences, 3);
        CHECK_NEAR(d->time_ms, 1, 1e-9);
        CHECK_NEAR(d->busy_share, 0.4, 1e-9);
        CHECK_NEAR(d->host_each_ns.mean, 1e6, 0);
        CHECK_NEAR(scene_stage(&a, "between steps")->idle_ns, 50e3, 0);
        CHECK(scene_has_note(&a, "step: 1 of 4 steps, the first or last one of a thread, launches nothing"));
        for (size_t i = 0; i < a.noperators; i++) CHECK(strcmp(a.operators[i].name, "step") != 0);
        analysis_free(&a);
        timeline_close(tl);
    }
}

/* The host waits in the third step for work of the second: it launches nothing, but steps follow. */
TEST(an_empty_step_between_others_counts) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    add_rank(&s, 1000, 0);
    scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, 3 * MS, 4 * MS);
    add_rank(&s, 1000, 4000);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(scene_stage(&a, "step")->occurrences, 7);
    CHECK_NEAR(scene_stage(&a, "step")->time_ms, 1, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

/* The kernels have no correlation id, so their step is unknown, although the step has launches. */
TEST(a_stage_without_known_work_has_the_time_of_its_ranges) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t t = 0; t < 2 * MS; t += MS) {
        scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, t, t + MS);
        add_call(&s, "cudaLaunchKernel", t + 3 * US, t + 6 * US);
        kernel_without_launch(&s, t + 10 * US, t + 410 * US);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "step");
    CHECK_NEAR(d->time_ms, 1, 1e-9);
    CHECK_NEAR(d->wall_ns.max, 1e6, 0);
    CHECK(isnan(d->busy_share));
    CHECK_NEAR(scene_stage(&a, "between steps")->gpu_busy_ns, 800e3, 1e-6);
    analysis_free(&a);
    timeline_close(tl);
}

/* A model that is split over two GPUs: the second one waits for the first. */
TEST(a_gpu_that_waits_for_another_gpu_of_its_process_is_idle) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t t = i * MS;
        scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, t, t + MS);
        s.device = 0;
        scene_kernel(&s, "k", 1, t + 3 * US, t + 6 * US, 7, t + 10 * US, t + 500 * US);
        s.device = 1;
        scene_kernel(&s, "k", 1, t + 8 * US, t + 11 * US, 7, t + 505 * US, t + 600 * US);
        for (uint64_t k = t + 650 * US; k < t + MS; k += 100 * US) /* a launch takes 6 us */
            scene_kernel(&s, "k", 1, k, k + 4 * US, 7, k + 10 * US, k + 50 * US);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_NEAR(a.devices[1].unrecorded_ns, 0, 0);
    CHECK_NEAR(on(&a, "step", 1)->cause_ns[ANALYSIS_IDLE_DEPENDENCY], 3 * 494e3, 0);
    CHECK_NEAR(scene_stage(&a, "step")->time_ms, 1, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

/* The kernels of the second half run while an operator is open on autograd's thread. */
TEST(without_launches_work_of_a_thread_without_stages_counts_in_the_open_stage) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t t = 0; t < 3 * MS; t += MS) {
        scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, t, t + MS);
        kernel_without_launch(&s, t + 10 * US, t + 490 * US);
        scene_operator(&s, "backward", "", 2, t + 500 * US, t + 990 * US);
        kernel_without_launch(&s, t + 510 * US, t + 900 * US);
        timeline_builder_copy(
            s.b,
            &(struct trace_copy){
                .start_ns = t + 900 * US, .end_ns = t + 980 * US, .stream = 7, .copy_kind = TRACE_COPY_DTOH },
            1);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "step");
    CHECK_INT(d->kernels, 6);
    CHECK_INT(d->copies, 3);
    CHECK_NEAR(d->time_ms, 1, 1e-9);
    CHECK_NEAR(d->busy_share, 0.95, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

/* The program is a step and a half ahead of the GPU. Its launches were not recorded, the copies of its
 * annotations were. */
TEST(without_launches_copies_of_annotations_say_where_kernels_belong) {
    struct scene s;
    struct analysis a;
    char name[] = "ProfilerStep#0";
    scene_start(&s);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t t = i * MS, k = t + 1500 * US;
        name[strlen(name) - 1] = (char)('0' + i);
        scene_range(&s, TRACE_CATEGORY_USER, name, 1, t, t + 990 * US);
        kernel_without_launch(&s, k, k + 400 * US);
        kernel_without_launch(&s, k + 410 * US, k + 900 * US);
        mirror(&s, name, k, k + 900 * US);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "step");
    CHECK_INT(d->kernels, 6);
    CHECK_NEAR(d->time_ms, 0.9, 1e-9);
    CHECK_NEAR(d->gpu_busy_ns, 3 * 890e3, 0);
    CHECK(scene_has_note(&a, "or to the stage whose copy on the GPU it ran in"));
    analysis_free(&a);
    timeline_close(tl);
}

static const char collective[] = "nccl:all_gather";

/* The kernels of the step before run until 14 ms. Those of a collective are outside of the step's copy,
 * because they have a copy of their own. */
TEST(without_launches_a_step_has_only_the_kernels_in_its_copy) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_USER, "ProfilerStep#6", 1, 0, 47 * MS);
    scene_range(&s, TRACE_CATEGORY_USER, collective, 1, 40 * MS, 41 * MS);
    kernel_without_launch(&s, MS, 14 * MS);
    kernel_without_launch(&s, 14 * MS, 48 * MS);
    kernel_without_launch(&s, 49 * MS, 50 * MS);
    mirror(&s, "ProfilerStep#6", 14 * MS, 48 * MS);
    mirror(&s, collective, 49 * MS, 50 * MS);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "step");
    CHECK_INT(d->kernels, 2);
    CHECK_NEAR(d->gpu_busy_ns, 35e6, 0);
    CHECK(d->time_ms > 35 && d->time_ms <= 37); /* 1 ms idle before the first kernel, 1 ms before the last */
    analysis_free(&a);
    timeline_close(tl);
}

static void check_time_is_unknown(struct scene *s, const char *why) {
    struct analysis a;
    struct timeline *tl = timeline_builder_finish(s->b);
    analyze_run(tl, &(struct analyze_input){ .totals = true }, &a);
    const struct analysis_stage *d = scene_stage(&a, "decode");
    CHECK(isnan(d->copy_alone_ns) && isnan(d->kernels_per_token));
    CHECK_INT(a.totals->annotations.n, 1);
    CHECK(a.totals->annotations.v[0].device_unknown);
    CHECK(isnan(d->time_ms) && isnan(d->busy_ms) && isnan(d->busy_share) && isnan(d->tokens_per_s));
    CHECK(!d->idle_known && isnan(d->idle_ms) && isnan(d->kernels_each));
    CHECK(scene_has_note(&a, why));
    CHECK_INT(a.nfindings, 0);
    CHECK_INT(a.nparts, 0);
    analysis_free(&a);
    timeline_close(tl);
}

/* 100 kernels of a graph, most of them after the range has closed. */
TEST(without_launches_a_stage_whose_kernels_outlast_it_has_no_time) {
    struct scene s;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_USER, "step[DECODE bs=32]", 1, 0, 465 * MS);
    for (uint64_t i = 0; i < 100; i++)
        kernel_without_launch(&s, 463950 * US + i * 100 * US, 464040 * US + i * 100 * US);
    check_time_is_unknown(&s, "decode: its time is unknown: its kernels run after its ranges have closed");
}

TEST(without_launches_a_stage_that_closes_before_its_kernels_run_has_no_time) {
    struct scene s;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_USER, "execute_context_0(0)_generation_32(32)", 1, 0, 2400 * US);
    kernel_without_launch(&s, 8 * MS, 13 * MS);
    kernel_without_launch(&s, 13 * MS, 19 * MS);
    check_time_is_unknown(&s, "decode: its time is unknown: kernels ran while no stage was open");
}

/* Prefill and decode of a program that waits for the GPU after each of them. Loading weights is no stage. */
TEST(without_launches_stages_that_wait_for_the_gpu_have_the_time_of_their_ranges) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    kernel_without_launch(&s, 0, 5 * MS);
    scene_range(&s, TRACE_CATEGORY_USER, "prefill", 1, 10 * MS, 14 * MS);
    kernel_without_launch(&s, 11 * MS, 13 * MS);
    for (uint64_t t = 14 * MS; t < 18 * MS; t += MS) {
        scene_range(&s, TRACE_CATEGORY_USER, "decode", 1, t, t + MS);
        kernel_without_launch(&s, t + 100 * US, t + 900 * US);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_NEAR(scene_stage(&a, "prefill")->time_ms, 4, 1e-9);
    CHECK_NEAR(scene_stage(&a, "decode")->time_ms, 1, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

/* Two models on two threads, and a thread that only prepares data. */
TEST(steps_of_different_stages_that_run_at_once_are_counted) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "load", 3, 0, 3 * MS);
    for (uint64_t i = 0; i < 3; i++) {
        add_step_on(&s, 0, 1, i * MS);
        scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 2, i * MS, i * MS + 500 * US);
        scene_kernel(&s, "k", 2, i * MS + 3 * US, i * MS + 6 * US, 9, i * MS + 10 * US, i * MS + 310 * US);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_NEAR(scene_stage(&a, "decode")->at_once, 2, 1e-9);
    CHECK_NEAR(scene_stage(&a, "step")->at_once, 1.5, 1e-9);
    CHECK(isnan(scene_stage(&a, "load")->at_once));
    CHECK_NEAR(scene_stage(&a, "load")->time_ms, 3, 1e-9);
    CHECK(scene_has_note(&a, "decode: while one of its steps is open, 2.0 steps are open at once"));
    analysis_free(&a);
    timeline_close(tl);
}

/* Joined traces of two ranks. The threads of autograd mark no stages; the steps of the ranks overlap. */
TEST(ranks_in_one_file_have_their_own_steps) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    timeline_builder_meta(s.b, "process.pid", "100");
    timeline_builder_meta(s.b, "thread.1.pid", "100");
    timeline_builder_meta(s.b, "thread.11.pid", "100");
    timeline_builder_meta(s.b, "thread.2.pid", "200");
    timeline_builder_meta(s.b, "thread.12.pid", "200");
    for (uint64_t i = 0; i < 3; i++)
        for (uint32_t rank = 0; rank < 2; rank++) {
            uint64_t t = i * MS + rank * 20 * US;
            add_step_on(&s, rank, 1 + rank, t);
            scene_kernel(&s, "backward", 11 + rank, t + 405 * US, t + 408 * US, 8, t + 410 * US,
                         t + 900 * US);
        }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "step");
    CHECK_INT(d->kernels, 12);
    CHECK_NEAR(d->time_ms, 1, 1e-9);
    CHECK_NEAR(d->at_once, 1, 1e-9);
    CHECK_NEAR(d->busy_share, 0.89, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}
