#include <math.h>

#include "engine/sampling/sampler.h"
#include "unit/test.h"

TEST(greedy_takes_the_lowest_id_among_equals) {
    const float logits[] = { -INFINITY, 2, NAN, 2, 1 };
    const float nothing[] = { NAN, -INFINITY };
    CHECK_INT(sampler_argmax(logits, 5), 1);
    CHECK_INT(sampler_argmax(nothing, 2), 0);
    struct sampler *s = sampler_open(&(struct sampler_settings){ .seed = 1 }, 5);
    for (int i = 0; i < 10; i++) CHECK_INT(sampler_pick(s, logits), 1);
    sampler_close(s);
    sampler_close(NULL);
}

/* Draws many times; counts[id]. */
static void draw(const struct sampler_settings *set, const float *logits, size_t vocab, int times,
                 int *counts) {
    struct sampler *s = sampler_open(set, vocab);
    for (size_t i = 0; i < vocab; i++) counts[i] = 0;
    for (int i = 0; i < times; i++) counts[sampler_pick(s, logits)]++;
    sampler_close(s);
}

TEST(sampling_follows_the_probabilities) {
    const float logits[] = { logf(1), logf(2), -INFINITY, logf(5), NAN };
    int counts[5];
    draw(&(struct sampler_settings){ .temperature = 1, .seed = 7 }, logits, 5, 80000, counts);
    CHECK_NEAR(counts[0], 10000, 400); /* 4 standard deviations */
    CHECK_NEAR(counts[1], 20000, 500);
    CHECK_NEAR(counts[3], 50000, 560);
    draw(&(struct sampler_settings){ .temperature = 0.5, .seed = 7 }, logits, 5, 30000, counts);
    CHECK_NEAR(counts[1], 30000 * 4 / 30.0, 250); /* weights are squared */
    CHECK_NEAR(counts[3], 30000 * 25 / 30.0, 270);
}

TEST(top_k_and_top_p_cut_the_tail) {
    const float logits[] = { logf(10), logf(40), logf(20), logf(20), logf(10) };
    int counts[5];
    draw(&(struct sampler_settings){ .temperature = 1, .top_k = 2, .seed = 3 }, logits, 5, 6000, counts);
    CHECK_INT(counts[0] + counts[3] + counts[4], 0); /* 2 and 3 are equal: the lower id stays */
    CHECK_NEAR(counts[1], 4000, 150);
    draw(&(struct sampler_settings){ .temperature = 1, .top_p = 0.55, .seed = 3 }, logits, 5, 6000, counts);
    CHECK_INT(counts[0] + counts[3] + counts[4], 0); /* 0.4 + 0.2 reaches 0.55 */
    CHECK_NEAR(counts[1], 4000, 150);
    draw(&(struct sampler_settings){ .temperature = 1, .top_p = 0.001, .seed = 3 }, logits, 5, 100, counts);
    CHECK_INT(counts[1], 100);
    draw(&(struct sampler_settings){ .temperature = 1, .top_k = 3, .top_p = 0.7, .seed = 3 }, logits, 5, 6000,
         counts);
    CHECK_INT(counts[0] + counts[3] + counts[4], 0); /* top_p applies after top_k: 40/80 + 20/80 */
    CHECK_NEAR(counts[2], 2000, 150);
}

TEST(a_seed_repeats_its_draws) {
    const float logits[] = { 0.1f, 0.2f, 0.3f, 0.4f };
    struct sampler *s = sampler_open(&(struct sampler_settings){ .temperature = 1, .seed = 42 }, 4);
    uint32_t first[64];
    int differ = 0;
    for (int i = 0; i < 64; i++) first[i] = sampler_pick(s, logits);
    sampler_reset(s);
    for (int i = 0; i < 64; i++) CHECK_INT(sampler_pick(s, logits), first[i]);
    sampler_close(s);
    s = sampler_open(&(struct sampler_settings){ .temperature = 1, .seed = 43 }, 4);
    for (int i = 0; i < 64; i++) differ += sampler_pick(s, logits) != first[i];
    CHECK(differ > 10);
    sampler_close(s);
}
