#include "analyze/totals.h"

#include <math.h>
#include <string.h>

#include "unit/analyze/scene.h"
#include "unit/test.h"

/* A scene, analysed with its totals. */
struct totalled {
    struct timeline *tl;
    struct analysis a;
    const struct analysis_totals *t;
};

static void total(struct totalled *x, struct scene *s) {
    const struct analyze_input input = { .totals = true };
    x->tl = timeline_builder_finish(s->b);
    analyze_run(x->tl, &input, &x->a);
    x->t = x->a.totals;
}

static void totalled_free(struct totalled *x) {
    analysis_free(&x->a);
    timeline_close(x->tl);
}

static const struct totals_range *row_of(const struct totals_ranges *ranges, const char *name) {
    for (size_t i = 0; i < ranges->n; i++)
        if (strcmp(ranges->v[i].name, name) == 0) return &ranges->v[i];
    fail_msg("no row %s", name);
    return NULL;
}

static const struct analysis_operator *operator_of(const struct analysis *a, const char *name) {
    for (size_t i = 0; i < a->noperators; i++)
        if (strcmp(a->operators[i].name, name) == 0) return &a->operators[i];
    fail_msg("no operator %s", name);
    return NULL;
}

static uint64_t count_of(const struct sums_counts *counts, const char *name) {
    for (size_t i = 0; i < counts->n; i++)
        if (strcmp(counts->v[i].name, name) == 0) return counts->v[i].count;
    return 0;
}

static void op(struct scene *s, const char *name, uint32_t thread, uint64_t start, uint64_t end) {
    scene_range(s, TRACE_CATEGORY_OP, name, thread, start, end);
}

/* Launched at `call` by a thread; kernels take `ns` each and run consecutively from time 1000 on. */
static void kernel(struct scene *s, uint32_t thread, uint64_t call, uint64_t ns) {
    uint64_t start = 1000 + s->correlation * 100;
    scene_kernel(s, "k", thread, call, call + 1, 7, start, start + ns);
}

TEST(totals_without_being_asked_for_are_null) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK(a.totals == NULL);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(totals_give_children_and_launches_to_the_innermost_operator) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    op(&s, "outer", 1, 0, 100);
    op(&s, "inner", 1, 10, 40);
    op(&s, "outer", 1, 20, 30); /* inside inner: recursion */
    op(&s, "late", 1, 50, 120); /* ends after its parent */
    op(&s, "other", 2, 0, 100);
    kernel(&s, 1, 25, 7);
    kernel(&s, 1, 35, 5);
    kernel(&s, 1, 110, 3);
    kernel(&s, 2, 100, 2);
    kernel(&s, 1, 10, 1);
    total(&x, &s);
    const struct totals_range *outer = row_of(&x.t->operators, "outer");
    const struct totals_range *inner = row_of(&x.t->operators, "inner");
    CHECK_INT(outer->calls, 2);
    CHECK_INT(outer->total_ns, 110);
    /* minus inner, minus the part shared with late; plus the second call */
    CHECK_INT(outer->self_ns, 100 - 30 - 50 + 10);
    CHECK_INT(outer->device_ns, 7 + 5 + 1); /* late launched its work after outer had ended */
    CHECK_INT(outer->self_device_ns, 7);
    CHECK_INT(inner->self_ns, 20);
    CHECK_INT(inner->device_ns, 13);
    CHECK_INT(inner->self_device_ns, 6);
    CHECK_INT(row_of(&x.t->operators, "late")->device_ns, 3);
    CHECK_INT(row_of(&x.t->operators, "other")->device_ns, 2); /* launched the moment it ended */
    totalled_free(&x);
}

TEST(totals_count_the_common_part_of_two_crossing_operators_once) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    op(&s, "outer", 1, 0, 100);
    op(&s, "early", 1, 10, 60);
    op(&s, "late", 1, 50, 90); /* a quarter of it in early: not nested there */
    total(&x, &s);
    CHECK_INT(row_of(&x.t->operators, "outer")->self_ns, 100 - 80);
    CHECK_INT(row_of(&x.t->operators, "early")->self_ns, 50);
    CHECK_INT(row_of(&x.t->operators, "late")->self_ns, 40);
    for (size_t i = 0; i < x.a.noperators; i++)
        if (strcmp(x.a.operators[i].name, "outer") == 0) CHECK_NEAR(x.a.operators[i].self_ns, 20, 0);
    for (size_t i = 1; i < x.a.ncalls; i++)
        if (strcmp(x.a.calls[i].name, "outer") == 0) CHECK_NEAR(x.a.calls[i].host_ns, 20, 0);
    totalled_free(&x);
}

TEST(totals_take_the_first_recorded_of_two_equal_operators_as_the_parent) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    op(&s, "first", 1, 0, 10);
    op(&s, "second", 1, 0, 10);
    total(&x, &s);
    CHECK_INT(row_of(&x.t->operators, "first")->self_ns, 0);
    CHECK_INT(row_of(&x.t->operators, "second")->self_ns, 10);
    totalled_free(&x);
}

TEST(totals_nest_operators_in_operators_only) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    op(&s, "outer", 1, 0, 100);
    scene_range(&s, TRACE_CATEGORY_MODULE, "python", 1, 10, 90);
    op(&s, "inner", 1, 20, 30);
    kernel(&s, 1, 50, 4);
    total(&x, &s);
    CHECK_INT(row_of(&x.t->operators, "outer")->self_ns, 90);
    CHECK_INT(row_of(&x.t->operators, "outer")->self_device_ns, 4);
    CHECK_INT(x.t->operators.n, 2);
    CHECK_INT(x.t->annotations.n, 0);
    totalled_free(&x);
}

static void annotate(struct scene *s, const char *domain, const char *name, uint32_t flags, uint64_t start) {
    struct trace_range r = { .start_ns = start,
                             .end_ns = start + 10,
                             .thread = 1,
                             .category = TRACE_CATEGORY_USER,
                             .flags = flags,
                             .name = timeline_builder_text(s->b, name),
                             .domain = timeline_builder_text(s->b, domain),
                             .flops = NAN,
                             .bytes = NAN,
                             .payload = NAN };
    timeline_builder_range(s->b, &r, 1);
}

TEST(totals_count_steps_of_a_loop_as_one_annotation) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    annotate(&s, "user_annotation", "ProfilerStep#1", 0, 0);
    annotate(&s, "user_annotation", "ProfilerStep#12", 0, 10);
    annotate(&s, "", "layer#x", 0, 20);
    annotate(&s, "python_function", "main.py", 0, 30);           /* not marked by a person */
    annotate(&s, "", "request", TRACE_RANGE_FREE, 40);           /* may end on another thread */
    annotate(&s, "", "here", TRACE_RANGE_MARK, 60);              /* an instant */
    scene_range(&s, TRACE_CATEGORY_STAGE, "prefill", 1, 80, 90); /* an engine's own */
    total(&x, &s);
    CHECK_INT(x.t->annotations.n, 3);
    CHECK_INT(row_of(&x.t->annotations, "ProfilerStep")->calls, 2);
    CHECK_INT(row_of(&x.t->annotations, "layer#x")->calls, 1);
    CHECK_INT(row_of(&x.t->annotations, "prefill")->calls, 1);
    CHECK_INT(count_of(&x.t->sums.events, "user_annotation"), 4);
    CHECK_INT(count_of(&x.t->sums.events, "instant"), 1);
    CHECK_INT(count_of(&x.t->sums.events, "range"), 2);
    totalled_free(&x);
}

/* The frame outlasts the annotation around it, as a generator's frame does that never returned. */
TEST(device_time_of_a_range_is_of_work_launched_while_it_was_open) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_USER, "region", 1, 0, 200);
    scene_range(&s, TRACE_CATEGORY_USER, "record", 1, 0, 100);
    scene_range(&s, TRACE_CATEGORY_MODULE, "next", 1, 10, 180);
    op(&s, "graph", 1, 150, 170);
    kernel(&s, 1, 50, 2);
    kernel(&s, 1, 120, 40);
    kernel(&s, 1, 160, 30);
    total(&x, &s);
    CHECK_INT(row_of(&x.t->annotations, "record")->device_ns, 2);
    CHECK_INT(row_of(&x.t->annotations, "record")->self_device_ns, 2);
    CHECK_INT(row_of(&x.t->annotations, "region")->device_ns, 72);
    CHECK_INT(row_of(&x.t->annotations, "region")->self_device_ns, 70);
    CHECK_INT(row_of(&x.t->operators, "graph")->device_ns, 30);
    CHECK_NEAR(operator_of(&x.a, "record")->gpu_ns, 2, 0);
    CHECK_NEAR(operator_of(&x.a, "next")->gpu_ns, 72, 0);
    CHECK_NEAR(operator_of(&x.a, "next")->gpu_self_ns, 42, 0);
    CHECK_NEAR(operator_of(&x.a, "region")->gpu_ns, 72, 0);
    totalled_free(&x);
}

/* A frame that never returned: the inner call outlasts the outer one and launches work after it. */
TEST(an_operator_takes_at_least_its_self_time) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    op(&s, "record", 1, 0, 100);
    op(&s, "record", 1, 10, 180);
    kernel(&s, 1, 50, 2);
    kernel(&s, 1, 120, 40);
    total(&x, &s);
    const struct totals_range *row = row_of(&x.t->operators, "record");
    const struct analysis_operator *o = operator_of(&x.a, "record");
    CHECK_INT(row->device_ns, 42);
    CHECK_INT(row->self_device_ns, 42);
    CHECK_NEAR(o->gpu_ns, 42, 0);
    CHECK_NEAR(o->gpu_self_ns, 42, 0);
    CHECK_NEAR(o->total_ns, o->self_ns, 0);
    totalled_free(&x);
}

/* The inner call outlasts the outer one; both have other work than the self time of one of them. */
TEST(a_call_that_outlasts_the_call_around_it_counts_until_it_ends) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    op(&s, "record", 1, 0, 100);
    op(&s, "record", 1, 10, 180);
    op(&s, "mm", 1, 40, 60);
    op(&s, "mm", 1, 110, 130);
    kernel(&s, 1, 50, 2);
    kernel(&s, 1, 120, 40);
    kernel(&s, 1, 170, 5);
    total(&x, &s);
    const struct totals_range *row = row_of(&x.t->operators, "record");
    const struct analysis_operator *o = operator_of(&x.a, "record");
    CHECK_INT(row->device_ns, 47);
    CHECK_INT(row->self_device_ns, 5);
    CHECK_NEAR(o->gpu_ns, 47, 0);
    CHECK_NEAR(o->gpu_self_ns, 5, 0);
    CHECK_NEAR(o->total_ns, 180, 0);
    CHECK_NEAR(o->self_ns, 180 - 40, 0);
    totalled_free(&x);
}

/* torch.profiler repeats an annotation on the GPU's track. */
TEST(operators_are_ranges_of_the_program_and_not_of_its_profiler) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    annotate(&s, "user_annotation", "forward", 0, 0);
    annotate(&s, "gpu_user_annotation", "forward", 0, 100);
    annotate(&s, "overhead", "Activity Buffer Request", 0, 20);
    annotate(&s, "Trace", "PyTorch Profiler (0)", 0, 40);
    total(&x, &s);
    CHECK_INT(x.a.noperators, 1);
    CHECK_STR(x.a.operators[0].name, "forward");
    CHECK_INT(x.a.operators[0].calls, 1);
    CHECK_NEAR(x.a.operators[0].total_ns, 10, 0);
    CHECK_INT(x.t->annotations.n, 1);
    totalled_free(&x);
}

/* torch.profiler writes them if it reads hardware counters (profiler_measure_per_kernel). */
TEST(ranges_of_a_counter_pass_are_the_profilers) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    annotate(&s, "user_annotation", "forward", 0, 0);
    annotate(&s, "cuda_profiler_range", "__profile__", TRACE_RANGE_FREE, 100);
    annotate(&s, "cuda_profiler_range", "decode", 0, 200);
    total(&x, &s);
    CHECK_INT(x.a.noperators, 1);
    CHECK_STR(x.a.operators[0].name, "forward");
    CHECK_INT(x.t->annotations.n, 1);
    for (size_t i = 0; i < x.a.nstages; i++) CHECK(strcmp(x.a.stages[i].name, "decode") != 0);
    totalled_free(&x);
}

TEST(totals_meet_ranges_by_time_in_a_file_without_launches) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    op(&s, "op", 1, 0, 100);
    struct trace_kernel k = { .start_ns = 10, .end_ns = 30, .name = timeline_builder_text(s.b, "k") };
    timeline_builder_kernel(s.b, &k, 1);
    total(&x, &s);
    CHECK_INT(row_of(&x.t->operators, "op")->device_ns, 20);
    CHECK_INT(count_of(&x.t->sums.problems, "no_launch"), 1);
    totalled_free(&x);
}

TEST(totals_join_launches_and_operators_of_two_files_of_one_process) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    timeline_builder_meta(s.b, "process.pid", "7");
    kernel(&s, 1, 50, 4);
    timeline_builder_process(s.b, "engine.ipt");
    timeline_builder_meta(s.b, "process.pid", "7");
    op(&s, "op", 1, 0, 100);
    total(&x, &s);
    CHECK_INT(row_of(&x.t->operators, "op")->device_ns, 4);
    totalled_free(&x);
}

TEST(totals_take_the_first_recorded_of_two_calls_with_one_id) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    op(&s, "first", 1, 0, 10);
    op(&s, "second", 1, 10, 20);
    struct trace_launch twice[] = { { .start_ns = 1, .end_ns = 2, .correlation = 1, .thread = 1 },
                                    { .start_ns = 11, .end_ns = 12, .correlation = 1, .thread = 1 } };
    struct trace_kernel k = {
        .start_ns = 30, .end_ns = 35, .correlation = 1, .name = timeline_builder_text(s.b, "k")
    };
    timeline_builder_launch(s.b, twice, 2);
    timeline_builder_kernel(s.b, &k, 1);
    total(&x, &s);
    CHECK_INT(row_of(&x.t->operators, "first")->device_ns, 5);
    CHECK_INT(row_of(&x.t->operators, "second")->device_ns, 0);
    CHECK_INT(count_of(&x.t->sums.problems, "duplicate_correlation"), 1);
    totalled_free(&x);
}

static void copy(struct scene *s, enum trace_copy_kind kind, uint32_t stream, uint64_t start, uint64_t end) {
    struct trace_copy c = {
        .start_ns = start, .end_ns = end, .bytes = 8, .stream = stream, .copy_kind = kind
    };
    timeline_builder_copy(s->b, &c, 1);
}

TEST(totals_count_each_moment_of_a_device_and_of_a_stream_once) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    scene_kernel(&s, "k", 1, 0, 1, 7, 100, 200);
    scene_kernel(&s, "k", 1, 2, 3, 8, 150, 250);
    copy(&s, TRACE_COPY_HTOD, 7, 180, 300); /* before the kernel on its stream ended */
    copy(&s, TRACE_COPY_MEMSET, 7, 400, 410);
    total(&x, &s);
    CHECK_INT(x.t->ndevices, 1);
    CHECK_STR(x.t->devices[0].name, "NVIDIA H200");
    CHECK_INT(x.t->devices[0].span_ns, 310);
    CHECK_INT(x.t->devices[0].busy_ns, 210);
    CHECK_INT(x.t->devices[0].kernel_busy_ns, 150);
    CHECK_INT(x.t->devices[0].copies, 2);
    CHECK_INT(x.t->nstreams, 2);
    CHECK_INT(x.t->streams[0].stream, 7);
    CHECK_INT(x.t->streams[0].busy_ns, 210);
    CHECK_INT(x.t->streams[1].busy_ns, 100);
    CHECK_INT(count_of(&x.t->sums.problems, "overlap_on_stream"), 1);
    CHECK_INT(x.t->copies[TRACE_COPY_HTOD].total_ns, 120);
    CHECK_INT(x.t->copies[TRACE_COPY_HTOD].bytes, 8);
    CHECK_INT(x.t->copies[TRACE_COPY_MEMSET].count, 1);
    CHECK_INT(count_of(&x.t->sums.events, "memcpy"), 1);
    CHECK_INT(count_of(&x.t->sums.events, "memset"), 1);
    CHECK_INT(count_of(&x.t->sums.problems, "no_launch"), 2);
    totalled_free(&x);
}

TEST(totals_sum_kernels_by_name_over_their_shapes) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    struct trace_kernel k[] = { { .start_ns = 0, .end_ns = 5, .grid_x = 1 },
                                { .start_ns = 5, .end_ns = 12, .grid_x = 2 } };
    k[0].name = k[1].name = timeline_builder_text(s.b, "_Z3addPf");
    timeline_builder_kernel(s.b, k, 2);
    total(&x, &s);
    CHECK_INT(x.t->sums.kernels.n, 1);
    CHECK_STR(x.t->sums.kernels.v[0].name, "add(float*)");
    CHECK_INT(x.t->sums.kernels.v[0].calls, 2);
    CHECK_INT(x.t->sums.kernels.v[0].total_ns, 12);
    totalled_free(&x);
}

TEST(totals_take_the_events_of_an_imported_trace_from_its_importer) {
    struct scene s;
    struct totalled x;
    scene_start(&s);
    timeline_builder_meta(s.b, "source", "import:kineto");
    timeline_builder_meta(s.b, "import.events.flow", "12");
    timeline_builder_meta(s.b, "import.problem.bad_number", "2");
    kernel(&s, 1, 0, 5); /* the importer's count takes precedence */
    total(&x, &s);
    CHECK_INT(count_of(&x.t->sums.events, "flow"), 12);
    CHECK_INT(count_of(&x.t->sums.events, "kernel"), 0);
    CHECK_INT(count_of(&x.t->sums.problems, "bad_number"), 2);
    totalled_free(&x);
}

/* A rank with a computation [0, 100) and a collective from `start` to 150. */
static void add_rank(struct scene *s, const char *rank, const char *uuid, const char *clock, uint64_t start) {
    timeline_builder_process(s->b, rank);
    timeline_builder_meta(s->b, "rank", rank);
    timeline_builder_meta(s->b, "clock", clock);
    timeline_builder_meta(s->b, "device.0.uuid", uuid);
    scene_kernel(s, "gemm", 1, 0, 1, 7, 0, 100);
    scene_kernel(s, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 1, 2, 3, 20, start, 150);
}

TEST(totals_have_computation_and_communication_per_rank) {
    struct scene s = { .b = timeline_builder_open() };
    struct totalled x;
    add_rank(&s, "0", "a", "unix", 60);
    add_rank(&s, "1", "b", "unix", 90);
    total(&x, &s);
    CHECK_INT(x.t->nranks, 2);
    CHECK_INT(x.t->ranks[1].rank, 1);
    CHECK_INT(x.t->ranks[0].busy_ns, 150);
    CHECK_INT(x.t->ranks[0].compute_ns, 100);
    CHECK_INT(x.t->ranks[0].comm_ns, 90);
    CHECK_INT(x.t->ranks[0].comm_hidden_ns, 40);
    CHECK_INT(x.t->ranks[1].comm_hidden_ns, 10);
    CHECK_INT(x.t->slowest_rank, 0);
    CHECK_INT(x.t->ndevices, 2);
    totalled_free(&x);
}

TEST(totals_of_two_files_on_one_gpu_are_one_device_and_two_ranks) {
    struct scene s = { .b = timeline_builder_open() };
    struct totalled x;
    add_rank(&s, "0", "a", "unix", 60);
    add_rank(&s, "1", "a", "unix", 90);
    total(&x, &s);
    CHECK_INT(x.t->ndevices, 1);
    CHECK_INT(x.t->devices[0].file, 0);
    CHECK_INT(x.t->devices[0].kernels, 4);
    CHECK_INT(x.t->devices[0].busy_ns, 150);
    CHECK_INT(x.t->ranks[0].busy_ns, 150);
    CHECK_INT(x.t->ranks[1].busy_ns, 150);
    totalled_free(&x);
}

TEST(sums_add_up_by_name_and_sort_by_time) {
    struct sums a, b;
    sums_init(&a);
    sums_init(&b);
    sums_add_kernel(&a, "x", 1, 2, 10);
    sums_add_kernel(&a, "yz", 1, 1, 50); /* "y" */
    sums_add_event(&a, "kernel", 3);
    sums_add_problem(&a, "bad_row", 0); /* not a problem */
    sums_add_kernel(&b, "x", 1, 1, 90);
    sums_add_event(&b, "flow", 4);
    sums_add_event(&b, "kernel", 1);
    sums_add_all(&a, &b);
    sums_sort(&a);
    CHECK_INT(a.kernels.n, 2);
    CHECK_STR(a.kernels.v[0].name, "x");
    CHECK_INT(a.kernels.v[0].calls, 3);
    CHECK_INT(a.kernels.v[0].total_ns, 100);
    CHECK_STR(a.kernels.v[1].name, "y");
    CHECK_INT(a.kernel_calls, 4);
    CHECK_INT(a.kernel_ns, 150);
    CHECK_STR(a.events.v[0].name, "flow");
    CHECK_INT(a.events.v[1].count, 4);
    CHECK_INT(a.problems.n, 0);
    sums_free(&a);
    sums_free(&b);
}
