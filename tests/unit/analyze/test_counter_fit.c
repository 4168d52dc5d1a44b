/* Synthetic timelines with known rates: the fit must find the rates and a correct error estimate. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/counter_fit.h"
#include "base/hash.h"
#include "base/util.h"
#include "unit/test.h"

#define CLASSES 6
#define KERNELS_A_STEP 24

struct scene {
    size_t nkernels, nsamples;
    uint64_t *start, *end, *sample_start, *sample_end;
    uint32_t *class_of;
    float *values;
};

static double truth[CLASSES + 1] = { 95, 3, 40, 0, 72.5, 12, 0 }; /* percent; idle last */
static bool rigid; /* every step repeats the previous one exactly, to the nanosecond */

static double uniform(uint64_t *seed) { return (double)(hash_u64(++*seed) >> 11) * 0x1p-53; }
static double noise(uint64_t *seed) {
    return uniform(seed) + uniform(seed) + uniform(seed) - 1.5;
} /* sd 0.5 */

/* Consecutive steps of kernels of 1 to 8 us with gaps. */
static void make_kernels(struct scene *s, size_t steps, uint64_t seed) {
    uint64_t now = 1000000;
    s->nkernels = steps * KERNELS_A_STEP;
    s->start = calloc(s->nkernels, sizeof *s->start);
    s->end = calloc(s->nkernels, sizeof *s->end);
    s->class_of = calloc(s->nkernels, sizeof *s->class_of);
    for (size_t i = 0; i < s->nkernels; i++) {
        uint32_t slot = (uint32_t)(i % KERNELS_A_STEP), class = slot % CLASSES;
        double gap = rigid ? slot * 0.03 : uniform(&seed), more = rigid ? 0.5 : uniform(&seed);
        s->start[i] = now + 500 + (uint64_t)(gap * 2500);
        s->end[i] = s->start[i] + 1000 + class * 1300 + (uint64_t)(more * 300);
        s->class_of[i] = class;
        now = s->end[i];
    }
}

/* The mean of the true value over the sample's interval, by brute force. */
static double mean_truth(const struct scene *s, uint64_t from, uint64_t to, size_t *hint) {
    double sum = 0, busy = 0;
    while (*hint > 0 && s->end[*hint - 1] > from) --*hint;
    while (*hint < s->nkernels && s->end[*hint] <= from) ++*hint;
    for (size_t i = *hint; i < s->nkernels && s->start[i] < to; i++) {
        uint64_t a = MAX(from, s->start[i]), b = MIN(to, s->end[i]);
        if (b > a) {
            sum += truth[s->class_of[i]] * (double)(b - a);
            busy += (double)(b - a);
        }
    }
    return (sum + truth[CLASSES] * ((double)(to - from) - busy)) / (double)(to - from);
}

static void make_room_for_samples(struct scene *s) {
    s->sample_start = calloc(s->nsamples, sizeof *s->sample_start);
    s->sample_end = calloc(s->nsamples, sizeof *s->sample_end);
    s->values = calloc(s->nsamples, sizeof *s->values);
}

static void make_samples(struct scene *s, uint64_t interval_ns, double noise_sd, double jitter_ns,
                         double drift_ppm, uint64_t seed) {
    uint64_t first = s->start[0], last = s->end[s->nkernels - 1];
    size_t hint = 0;
    s->nsamples = (size_t)((last - first) / interval_ns);
    make_room_for_samples(s);
    for (size_t i = 0; i < s->nsamples; i++) {
        uint64_t from = first + i * interval_ns, to = from + interval_ns;
        s->values[i] = (float)(mean_truth(s, from, to, &hint) + 2 * noise_sd * noise(&seed));
        double shift = 2 * jitter_ns * noise(&seed) + drift_ppm * 1e-6 * (double)(from - first);
        s->sample_start[i] = (uint64_t)((double)from + shift);
        s->sample_end[i] = (uint64_t)((double)to + shift);
        if (i && s->sample_start[i] < s->sample_end[i - 1]) s->sample_start[i] = s->sample_end[i - 1];
    }
}

static struct counter_fit_input input_of(const struct scene *s) {
    return (struct counter_fit_input){ .nkernels = s->nkernels,
                                       .start_ns = s->start,
                                       .end_ns = s->end,
                                       .class_of = s->class_of,
                                       .nclasses = CLASSES,
                                       .nsamples = s->nsamples,
                                       .sample_start_ns = s->sample_start,
                                       .sample_end_ns = s->sample_end,
                                       .nmetrics = 1,
                                       .values = s->values };
}

static void run(const struct scene *s, struct counter_fit *fit) {
    struct counter_fit_input in = input_of(s);
    counter_fit_run(&in, fit);
}

static void free_scene(struct scene *s) {
    free(s->start);
    free(s->end);
    free(s->class_of);
    free(s->sample_start);
    free(s->sample_end);
    free(s->values);
}

static void check_within(uint64_t interval_ns, double noise_sd, double jitter_ns, double drift_ppm,
                         double eps) {
    struct scene s = { 0 };
    struct counter_fit fit;
    make_kernels(&s, 600, 7);
    make_samples(&s, interval_ns, noise_sd, jitter_ns, drift_ppm, 99);
    run(&s, &fit);
    for (size_t c = 0; c <= CLASSES; c++) CHECK_NEAR(fit.rate[c], truth[c], eps);
    counter_fit_free(&fit);
    free_scene(&s);
}

TEST(counters_of_each_class_are_recovered_exactly_without_noise) { check_within(3000, 0, 0, 0, 0.05); }
TEST(counters_of_kernels_much_shorter_than_the_interval_are_recovered) { check_within(20000, 0, 0, 0, 0.5); }
TEST(counters_stay_near_the_truth_with_noise) { check_within(10000, 2, 0, 0, 3); }
TEST(counters_stay_near_the_truth_with_jitter) { check_within(10000, 0, 150, 0, 4); }
TEST(counters_stay_near_the_truth_with_clock_drift) {
    check_within(10000, 0, 0, 1, 3);
} /* 90 ns at the end */

/* A step of about 160 us that repeats exactly, sampled every 100 us. Each sample starts at another phase,
 * so sample boundaries cut every kernel, including the shortest of 1.2 us. */
TEST(counters_of_a_step_that_repeats_exactly_are_resolved_by_phase) {
    rigid = true;
    check_within(100000, 0, 0, 0, 0.5);
    check_within(100003, 0.2, 0, 0, 4);
    rigid = false;
}

/* A hundred scenes, each with different rates. */
TEST(counters_are_recovered_whatever_the_rates) {
    double kept[CLASSES + 1];
    memcpy(kept, truth, sizeof kept);
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct scene s = { 0 };
        struct counter_fit fit;
        uint64_t draw = seed * 77;
        for (size_t c = 0; c < CLASSES; c++) truth[c] = 100 * uniform(&draw);
        make_kernels(&s, 60, seed * 1000);
        make_samples(&s, 2000 + (uint64_t)(uniform(&draw) * 20000), 0, 0, 0, seed);
        run(&s, &fit);
        for (size_t c = 0; c < CLASSES; c++) CHECK_NEAR(fit.rate[c], truth[c], 0.5);
        counter_fit_free(&fit);
        free_scene(&s);
    }
    memcpy(truth, kept, sizeof kept);
}

/* A pause fits perfectly. It must not turn the rest into outliers, and must not make the errors small. */
TEST(counters_name_honest_errors_after_a_long_pause) {
    struct scene s = { 0 }, wide;
    struct counter_fit fit;
    size_t inside = 0;
    make_kernels(&s, 200, 11);
    make_samples(&s, 10000, 3, 0, 0, 12);
    wide = s; /* as many samples again, and ten times more while idle, then one more kernel */
    wide.nsamples = s.nsamples * 12;
    make_room_for_samples(&wide);
    for (size_t i = 0; i < wide.nsamples; i++) {
        wide.sample_start[i] = s.sample_start[0] + i * 10000;
        wide.sample_end[i] = wide.sample_start[i] + 10000;
        wide.values[i] = i < s.nsamples ? s.values[i] : 0;
    }
    wide.start[s.nkernels - 1] = wide.sample_end[wide.nsamples - 2];
    wide.end[s.nkernels - 1] = wide.start[s.nkernels - 1] + 1000;
    run(&wide, &fit);
    for (size_t c = 0; c < CLASSES; c++) {
        CHECK(fit.error[c] > 0.1);
        inside += truth[c] == 0 || fabs(fit.rate[c] - truth[c]) <= 3 * fit.error[c];
    }
    CHECK(inside >= CLASSES - 1);
    counter_fit_free(&fit);
    free(wide.sample_start);
    free(wide.sample_end);
    free(wide.values);
    free_scene(&s);
}

TEST(counters_name_an_error_that_holds_the_truth) {
    size_t inside = 0, total = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct scene s = { 0 };
        struct counter_fit fit;
        make_kernels(&s, 200, seed * 1000);
        make_samples(&s, 10000, 3, 0, 0, seed);
        run(&s, &fit);
        for (size_t c = 0; c < CLASSES; c++) {
            if (truth[c] == 0) continue; /* at the limit of the allowed range, the error is one-sided */
            CHECK(fit.error[c] > 0);
            inside += fabs(fit.rate[c] - truth[c]) <= 3 * fit.error[c];
            total++;
        }
        counter_fit_free(&fit);
        free_scene(&s);
    }
    CHECK(inside * 20 >= total * 19); /* 99.7% would be within three errors if all were normal */
}

/* Samples whose timestamps are 1.6 us too early. */
TEST(counters_find_the_lag_between_the_two_clocks) {
    struct scene s = { 0 };
    struct counter_fit fit;
    make_kernels(&s, 600, 7);
    make_samples(&s, 10000, 1, 0, 0, 9);
    for (size_t i = 0; i < s.nsamples; i++) {
        s.sample_start[i] -= 1600;
        s.sample_end[i] -= 1600;
    }
    struct counter_fit_input in = input_of(&s);
    in.lag_ns = counter_fit_lag(&in, 0);
    CHECK_NEAR(in.lag_ns, 1600, 150);
    counter_fit_run(&in, &fit);
    for (size_t c = 0; c < CLASSES; c++) CHECK_NEAR(fit.rate[c], truth[c], 3);
    counter_fit_free(&fit);
    for (size_t i = 0; i < s.nsamples; i++) {
        s.sample_start[i] += 1600;
        s.sample_end[i] += 1600;
    }
    CHECK_NEAR(counter_fit_lag(&in, 0), 0, 100); /* without a lag, none must be found */
    free_scene(&s);
}

/* A long kernel whose second half has half the rate: its mean must be in between, although both plateaus
 * are clear. */
/* The kernels near the samples were counted with a time beyond 2^64. */
TEST(counters_of_a_sample_that_never_ends_have_a_lag_within_the_search) {
    const uint64_t start[] = { 60000000, 1000000000, 1100000000 },
                   end[] = { 60001000, 1000001000, 1100001000 }, sample_start[] = { 990000000, 1050000000 },
                   sample_end[] = { 1050000000, UINT64_MAX };
    const uint32_t class_of[] = { 0, 0, 0 };
    const float values[] = { 1, 2 };
    struct counter_fit_input in = { .nkernels = 3,
                                    .start_ns = start,
                                    .end_ns = end,
                                    .class_of = class_of,
                                    .nclasses = 1,
                                    .nsamples = 2,
                                    .sample_start_ns = sample_start,
                                    .sample_end_ns = sample_end,
                                    .nmetrics = 1,
                                    .values = values };
    int64_t lag = counter_fit_lag(&in, 0);
    CHECK(lag >= -6000 && lag <= 6000);
}

TEST(counters_count_a_kernels_tail) {
    struct scene s = { 0 };
    struct counter_fit fit;
    make_kernels(&s, 1, 1);
    s.nkernels = 20;
    s.nsamples = 20 * 10;
    make_room_for_samples(&s);
    for (uint32_t i = 0; i < 20; i++) {
        s.start[i] = 1000000 + i * 100000;
        s.end[i] = s.start[i] + 80000;
        s.class_of[i] = 0;
        for (uint32_t k = 0; k < 10; k++) {
            s.sample_start[i * 10 + k] = s.start[i] + k * 10000;
            s.sample_end[i * 10 + k] = s.sample_start[i * 10 + k] + 10000;
            s.values[i * 10 + k] = k < 6 ? 100 : k < 8 ? 20 : 0;
        }
    }
    run(&s, &fit);
    CHECK_NEAR(fit.rate[0], 80, 0.5);
    counter_fit_free(&fit);
    free_scene(&s);
}

/* A sequence that repeats: a kernel of 30 us with a slow first and last microsecond (0, 90, 45%), a short
 * one, and one of 10 us. The samples are made from the pieces; for the fit, three to five pieces are one
 * kernel. */
static void make_uneven(struct scene *pieces, struct scene *s, size_t steps) {
    static const struct {
        uint32_t piece, kernel, ns;
    } step[] = { { 0, 0, 1000 }, { 1, 0, 28000 }, { 2, 0, 1000 }, { 3, 1, 1500 }, { 4, 2, 10000 } };
    make_kernels(pieces, steps, 1); /* room enough */
    make_kernels(s, steps, 1);
    pieces->nkernels = s->nkernels = 0;
    for (uint64_t i = 0, now = 1000000; i < steps; i++, now += 900 + i % 7 * 50)
        for (size_t k = 0; k < COUNTOF(step); k++, now += step[k - 1].ns) {
            pieces->start[pieces->nkernels] = now;
            pieces->end[pieces->nkernels] = now + step[k].ns;
            pieces->class_of[pieces->nkernels++] = step[k].piece;
            bool goes_on = k > 0 && step[k].kernel == step[k - 1].kernel;
            if (goes_on) s->nkernels--;
            if (!goes_on) s->start[s->nkernels] = now;
            s->end[s->nkernels] = now + step[k].ns;
            s->class_of[s->nkernels++] = step[k].kernel;
        }
}

TEST(counters_of_a_short_kernel_are_its_own_though_its_neighbour_is_uneven) {
    struct scene pieces = { 0 }, s = { 0 };
    struct counter_fit fit;
    double kept[CLASSES + 1];
    memcpy(kept, truth, sizeof kept);
    memcpy(truth, (double[]){ 0, 90, 45, 20, 60, 0, 0 }, sizeof truth);
    make_uneven(&pieces, &s, 4000);
    make_samples(&pieces, 100003, 0.2, 0, 0, 3);
    s.nsamples = pieces.nsamples;
    s.values = pieces.values;
    s.sample_start = pieces.sample_start;
    s.sample_end = pieces.sample_end;
    run(&s, &fit);
    CHECK_NEAR(fit.rate[0], (90 * 28 + 45) / 30.0,
               1); /* without unknowns for edges, the errors would be 3, 10 and 10 */
    CHECK_NEAR(fit.rate[1], 20, 8);
    CHECK_NEAR(fit.rate[2], 60, 1.5);
    counter_fit_free(&fit);
    memcpy(truth, kept, sizeof kept);
    pieces.sample_start = pieces.sample_end = NULL;
    pieces.values = NULL;
    free_scene(&pieces);
    free_scene(&s);
}

/* An uncorrected lag of 400 ns: short kernels are wrong by tens of points, and their error estimate must
 * show it. */
TEST(counters_name_an_error_that_holds_a_wrong_lag) {
    struct scene s = { 0 };
    struct counter_fit fit;
    double worst = 0;
    make_kernels(&s, 600, 7);
    make_samples(&s, 10000, 0, 0, 0, 9);
    for (size_t i = 0; i < s.nsamples; i++) {
        s.sample_start[i] -= 400;
        s.sample_end[i] -= 400;
    }
    run(&s, &fit);
    for (size_t c = 0; c < CLASSES; c++) {
        worst = MAX(worst, fabs(fit.rate[c] - truth[c]));
        if (truth[c] > 0) CHECK(fabs(fit.rate[c] - truth[c]) <= 2 * fit.error[c]);
    }
    CHECK(worst > 3);
    counter_fit_free(&fit);
    free_scene(&s);
}

TEST(counters_shrug_off_outliers) {
    struct scene s = { 0 };
    struct counter_fit fit;
    make_kernels(&s, 600, 3);
    make_samples(&s, 10000, 0.5, 0, 0, 5);
    for (size_t i = 0; i < s.nsamples; i += 50) s.values[i] = 1000;
    run(&s, &fit);
    for (size_t c = 0; c < CLASSES; c++) CHECK_NEAR(fit.rate[c], truth[c], 4);
    counter_fit_free(&fit);
    free_scene(&s);
}

TEST(counters_say_nothing_of_a_class_that_hardly_ran) {
    struct scene s = { 0 };
    struct counter_fit fit;
    make_kernels(&s, 100, 3);
    for (size_t i = 0; i < s.nkernels; i++)
        if (s.class_of[i] == 5 && i > 5) s.class_of[i] = 4; /* one instance of class 5 is left */
    make_samples(&s, 10000, 0, 0, 0, 5);
    run(&s, &fit);
    CHECK(isnan(fit.rate[5]));
    CHECK(!isnan(fit.rate[4]));
    counter_fit_free(&fit);
    free_scene(&s);
}

TEST(counters_share_moments_of_concurrent_kernels_evenly) {
    uint64_t start[200], end[200], from[200], to[200];
    uint32_t class_of[200];
    float values[200];
    for (uint32_t i = 0; i < 100; i++) { /* two concurrent kernels in each sample */
        start[2 * i] = start[2 * i + 1] = 1000 + i * 1000;
        end[2 * i] = end[2 * i + 1] = 2000 + i * 1000;
        class_of[2 * i] = 0;
        class_of[2 * i + 1] = 1;
        from[i] = 1000 + i * 1000;
        to[i] = 2000 + i * 1000;
        values[i] = 60;
    }
    struct counter_fit_input in = { .nkernels = 200,
                                    .start_ns = start,
                                    .end_ns = end,
                                    .class_of = class_of,
                                    .nclasses = 2,
                                    .nsamples = 100,
                                    .sample_start_ns = from,
                                    .sample_end_ns = to,
                                    .nmetrics = 1,
                                    .values = values };
    struct counter_fit fit;
    counter_fit_run(&in, &fit);
    CHECK_NEAR(fit.exposure[0], 50, 1e-3);
    CHECK_NEAR(fit.exposure[1], 50, 1e-3);
    CHECK_NEAR((fit.rate[0] + fit.rate[1]) / 2, 60, 0.1); /* the two cannot be distinguished */
    counter_fit_free(&fit);
}

TEST(counters_of_nothing_are_unknown) {
    struct counter_fit_input in = { .nmetrics = 2 };
    struct counter_fit fit;
    counter_fit_run(&in, &fit);
    CHECK(isnan(fit.rate[0]) && isnan(fit.error[1]));
    counter_fit_free(&fit);
}
