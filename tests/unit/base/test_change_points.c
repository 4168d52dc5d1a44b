/* Simulated series with fixed seeds. A run has 5 processes, as compare recommends; a process has 1% noise;
 * the value of a run is the median of its processes, so the values of a series have 0.54% noise. The server
 * looks after every run. A step is found if a change point is at most 2 runs away from it, and not a drift.
 * */
#include "base/change_points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/util.h"
#include "unit/test.h"

#define PROCESSES 5
#define NOISE 0.01
#define BEFORE 25 /* runs before the step */
#define SERIES_RUNS 30

/* Marsaglia's xorshift, and the polar method for normal numbers. */
static uint64_t random_state;
static double uniform(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / 9007199254740992.0;
}

static double normal(void) {
    double u, v, s;
    do {
        u = 2 * uniform() - 1;
        v = 2 * uniform() - 1;
        s = u * u + v * v;
    } while (s >= 1 || s == 0);
    return u * sqrt(-2 * log(s) / s);
}

struct conditions {
    double drift;    /* relative change per run */
    double outliers; /* share of runs that take 5% to 25% longer */
    double missing;  /* share of runs without a value */
    size_t processes;
};

static double run_value(const struct conditions *c, double level, size_t run) {
    double v[16];
    for (size_t i = 0; i < c->processes; i++)
        v[i] = level * (1 + c->drift * (double)run) * (1 + NOISE * normal());
    double value = stats_median(v, c->processes);
    if (uniform() < c->outliers) value *= 1.05 + 0.2 * uniform();
    return uniform() < c->missing ? NAN : value;
}

/* Index of the first look with a change point at or after `from`; 0: none. */
static size_t first_alarm(const double *v, size_t n, size_t from) {
    struct change_point points[16];
    for (size_t looked = MAX(from, (size_t)6); looked <= n; looked++)
        if (change_points(v, looked, points, COUNTOF(points))) return looked;
    return 0;
}

static size_t false_alarms(const struct conditions *c, size_t series) {
    size_t alarms = 0;
    random_state = 88172645463325252u;
    for (size_t s = 0; s < series; s++) {
        double v[SERIES_RUNS];
        for (size_t i = 0; i < SERIES_RUNS; i++) v[i] = run_value(c, 100, i);
        alarms += first_alarm(v, SERIES_RUNS, 6) > 0;
    }
    return alarms;
}

static bool has_step(const double *v, size_t n) {
    struct change_point points[16];
    size_t found = change_points(v, n, points, COUNTOF(points));
    for (size_t i = 0; i < found; i++)
        if (points[i].at + 2 >= BEFORE && points[i].at <= BEFORE + 2 && points[i].change > 0 &&
            !points[i].drift)
            return true;
    return false;
}

/* Steps of 2% that are flagged at their place within 5 runs. A run without a value counts, too. */
static size_t steps_found(const struct conditions *c, size_t series) {
    size_t found = 0;
    random_state = 2463534242u;
    for (size_t s = 0; s < series; s++) {
        double v[BEFORE + 5];
        bool seen = false;
        for (size_t n = 0; n < COUNTOF(v); n++) {
            v[n] = run_value(c, n < BEFORE ? 100 : 102, n);
            seen = seen || (n > BEFORE && has_step(v, n + 1));
        }
        found += seen;
    }
    return found;
}

/* Series whose first change point after SERIES_RUNS runs is named a drift. */
static size_t drifts_named(const struct conditions *c, size_t series) {
    size_t named = 0;
    struct change_point points[16];
    random_state = 521288629u;
    for (size_t s = 0; s < series; s++) {
        double v[SERIES_RUNS];
        for (size_t i = 0; i < SERIES_RUNS; i++) v[i] = run_value(c, 100, i);
        named += change_points(v, SERIES_RUNS, points, COUNTOF(points)) && points[0].drift;
    }
    return named;
}

static size_t series_count(void) {
    return getenv("CHANGE_POINT_SERIES") ? strtoul(getenv("CHANGE_POINT_SERIES"), NULL, 10) : 4000;
}

/* Limits in thousandths of the series. */
static void check_conditions(const char *name, const struct conditions *c, size_t least_found,
                             size_t most_alarms) {
    size_t series = series_count(), found = steps_found(c, series), alarms = false_alarms(c, series);
    fprintf(stderr, "%s: %zu of %zu steps found within 5 runs, %zu of %zu series with a false alarm\n", name,
            found, series, alarms, series);
    CHECK(found * 1000 >= series * least_found);
    CHECK(alarms * 1000 <= series * most_alarms);
}

TEST(a_step_of_2_percent_is_found_within_5_runs_and_false_alarms_are_rare) {
    check_conditions("plain", &(struct conditions){ .processes = PROCESSES }, 950, 10);
}

TEST(outliers_do_not_hide_a_step_and_are_no_change_points) {
    check_conditions("outliers", &(struct conditions){ .processes = PROCESSES, .outliers = 0.03 }, 950, 10);
}

TEST(missing_runs_do_not_hide_a_step) {
    check_conditions("10% missing", &(struct conditions){ .processes = PROCESSES, .missing = 0.1 }, 950, 10);
    /* 6% of these series have fewer than 3 values among the 5 runs after the step. */
    check_conditions("20% missing", &(struct conditions){ .processes = PROCESSES, .missing = 0.2 }, 820, 10);
}

TEST(a_slow_drift_is_no_change_point) {
    check_conditions("drift", &(struct conditions){ .processes = PROCESSES, .drift = 0.0001 }, 950, 10);
}

/* 0.1% per run is 3% in a series of 30 runs, more than the step: a real change, but not of one run. */
TEST(a_strong_drift_is_named_a_drift) {
    struct conditions c = { .processes = PROCESSES, .drift = 0.001 };
    size_t series = series_count() / 4, named = drifts_named(&c, series);
    fprintf(stderr, "drift of 0.1%% per run: %zu of %zu series named a drift\n", named, series);
    CHECK(named * 1000 >= series * 850);
    c.drift = 0;
    CHECK(drifts_named(&c, series) * 1000 <= series * 2);
}

TEST(drift_outliers_and_missing_runs_together_do_not_hide_a_step) {
    struct conditions c = { .processes = PROCESSES, .drift = 0.0001, .outliers = 0.03, .missing = 0.1 };
    check_conditions("all three", &c, 950, 10);
}

TEST(an_outlier_is_not_part_of_a_level) {
    double v[30];
    struct change_point points[4];
    random_state = 11;
    for (size_t i = 0; i < 30; i++) v[i] = (i < 20 ? 100 : 103) * (1 + 0.004 * normal());
    v[7] = 130;
    v[24] = 70;
    CHECK_INT(change_points(v, 30, points, COUNTOF(points)), 1);
    CHECK_INT(points[0].at, 20);
    CHECK_NEAR(points[0].change, 0.03, 0.01);
}

/* With 1% noise between whole runs, 5 runs of a 2% step have too little information: a test that knows the
 * noise, the level before the step and its place finds about 90% at this rate of false alarms. */
TEST(noise_between_whole_runs_limits_what_5_runs_can_show) {
    struct conditions c = { .processes = 1 };
    check_conditions("1 process per run", &c, 350, 10);
}

TEST(the_change_point_is_the_first_run_of_the_new_level) {
    double v[40];
    struct change_point points[4];
    random_state = 42;
    for (size_t i = 0; i < 40; i++) v[i] = (i < 17 ? 100 : 110) * (1 + 0.002 * normal());
    v[3] = NAN;
    CHECK_INT(change_points(v, 40, points, COUNTOF(points)), 1);
    CHECK_INT(points[0].at, 17);
    CHECK_NEAR(points[0].before, 100, 0.5);
    CHECK_NEAR(points[0].change, 0.10, 0.005);
}

TEST(several_changes_of_a_long_series_are_found_once_each) {
    double v[200];
    struct change_point points[16];
    random_state = 7;
    for (size_t i = 0; i < 200; i++)
        v[i] = (i < 50 ? 100 : i < 110 ? 104 : i < 160 ? 97 : 100) * (1 + 0.003 * normal());
    size_t n = change_points(v, 200, points, COUNTOF(points));
    CHECK_INT(n, 3);
    CHECK_INT(points[0].at, 50);
    CHECK_INT(points[1].at, 110);
    CHECK_INT(points[2].at, 160);
}

TEST(constant_and_short_series_have_no_change_points) {
    double v[30];
    struct change_point points[4];
    for (size_t i = 0; i < 30; i++) v[i] = 5;
    CHECK_INT(change_points(v, 30, points, COUNTOF(points)), 0);
    for (size_t i = 0; i < 8; i++) v[i] = i < 4 ? 1 : 2;
    CHECK_INT(change_points(v, 8, points, COUNTOF(points)), 0);
    CHECK_INT(change_points(v, 0, points, COUNTOF(points)), 0);
}

TEST(the_baseline_is_the_median_of_the_runs_before_the_newest) {
    const double v[] = { 50, 1, 10, NAN, 12, 11, NAN, 22, NAN };
    struct baseline b = baseline_of(v, COUNTOF(v), NULL, 0, 3);
    CHECK_INT(b.runs, 3);
    CHECK(b.median == 11 && b.newest == 22 && fabs(b.change - 1) < 1e-12);
}

TEST(the_baseline_does_not_reach_beyond_a_change_point) {
    const double v[] = { 50, 50, 50, 10, 12, 11, 22 };
    struct change_point change = { .at = 3 };
    struct baseline b = baseline_of(v, COUNTOF(v), &change, 1, 10);
    CHECK_INT(b.runs, 3);
    CHECK(b.median == 11);
    change.at = 5;
    b = baseline_of(v, COUNTOF(v), &change, 1, 10);
    CHECK_INT(b.runs, 1);
    CHECK(isnan(b.median) && isnan(b.change) && b.newest == 22);
    b = baseline_of(v, 0, NULL, 0, 10);
    CHECK(b.runs == 0 && isnan(b.newest) && isnan(b.change));
}
