#include <math.h>

#include "base/stats.h"
#include "base/util.h"
#include "unit/test.h"

TEST(stats_of_known_values) {
    const double v[] = { 4, 2, 1, 3, NAN, 5 }; /* NaN: a failed repeat */
    struct stats s = stats_of(v, COUNTOF(v));
    CHECK_INT(s.n, 5);
    CHECK_NEAR(s.mean, 3, 1e-12);
    CHECK_NEAR(s.std, 1.5811388300841898, 1e-12);
    CHECK_NEAR(s.median, 3, 1e-12);
    CHECK_NEAR(s.p90, 4.6, 1e-12);
    CHECK_NEAR(s.cv, 0.5270462766947299, 1e-12);
    CHECK_NEAR(s.ci95_high - s.mean, 2.7764451051977987 * s.std / sqrt(5), 1e-9);
    CHECK_NEAR(s.min, 1, 0);
    CHECK_NEAR(s.max, 5, 0);
}

TEST(stats_p99_needs_a_hundred_values) {
    double v[100];
    for (int i = 0; i < 100; i++) v[i] = i;
    CHECK(isnan(stats_of(v, 99).p99));
    CHECK_NEAR(stats_of(v, 100).p99, 98.01, 1e-9);
}

TEST(stats_of_one_value_has_no_deviation) {
    const double v[] = { 7 };
    struct stats s = stats_of(v, 1);
    CHECK_NEAR(s.median, 7, 0);
    CHECK(isnan(s.std) && isnan(s.cv) && isnan(s.ci95_low));
    CHECK(isnan(stats_of(v, 0).mean));
}

/* Published Student's t values; fractional degrees of freedom between them must be monotone. */
TEST(stats_t_quantile_matches_the_tables) {
    CHECK_NEAR(stats_t_quantile(0.975, 1), 12.706204736, 1e-6);
    CHECK_NEAR(stats_t_quantile(0.975, 2), 4.30265273, 1e-7);
    CHECK_NEAR(stats_t_quantile(0.975, 9), 2.262157163, 1e-8);
    CHECK_NEAR(stats_t_quantile(0.975, 1000), 1.962339081, 1e-8);
    CHECK_NEAR(stats_t_quantile(0.025, 9), -2.262157163, 1e-8);
    CHECK(stats_t_quantile(0.975, 2.5) < stats_t_quantile(0.975, 2.0));
    CHECK(isnan(stats_t_quantile(0.975, 0)));
}

TEST(cv_within_groups) {
    const double v[] = { 10, 11, 1000, 1100, NAN, 50 };
    const uint32_t input[] = { 0, 0, 1, 1, 1, 2 };
    CHECK_NEAR(stats_grouped_cv(v, input, 6), sqrt(2) / 21, 1e-12);
    CHECK_NEAR(stats_grouped_cv(v, NULL, 2), stats_of(v, 2).cv, 1e-12);
    const uint32_t all_different[] = { 0, 1, 2, 3, 4, 5 };
    CHECK(isnan(stats_grouped_cv(v, all_different, 6)));
}
