/* Clocks fitted to simulated events. The seeds are fixed. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "ranks/clock_fit.h"
#include "unit/test.h"

#define MS 1e6
#define LIMIT_NS 5000.0 /* largest error that the documents promise */

/* A simulated clock and its events. */
struct simulated {
    size_t n;
    double gap_ns, offset_ns, drift, jitter_ns;
    double step_at[3], step_ns[3]; /* step_at is a share of the events; 0: none */
    double kink_at, kink_drift;    /* the drift changes at this share; 0: it does not */
    double missing, outliers;      /* shares of the events */
    uint64_t seed;
};

static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state) {
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(6.283185307179586 * uniform(state));
}

static double true_offset(const struct simulated *c, double t) {
    double end = (double)c->n * c->gap_ns, offset = c->offset_ns + c->drift * t;
    for (int i = 0; i < 3; i++)
        if (c->step_at[i] > 0 && t >= c->step_at[i] * end) offset += c->step_ns[i];
    if (c->kink_at > 0 && t > c->kink_at * end) offset += c->kink_drift * (t - c->kink_at * end);
    return offset;
}

static size_t make_events(const struct simulated *c, struct clock_point *p, double *truth) {
    uint64_t state = c->seed * 7919 + 1;
    size_t k = 0;
    for (size_t i = 0; i < c->n; i++) {
        double t = ((double)i + 0.4 * uniform(&state)) * c->gap_ns, noise = c->jitter_ns * normal(&state);
        bool missing = uniform(&state) < c->missing, outlier = uniform(&state) < c->outliers;
        if (outlier) noise += (uniform(&state) - 0.3) * 1e6;
        if (missing) continue;
        truth[k] = true_offset(c, t);
        p[k] = (struct clock_point){ t, truth[k] + noise };
        k++;
    }
    return k;
}

/* Returns the largest difference between the fitted and the true offset, without the two events at each step:
 * an event that is an outlier itself may be assigned to either side. */
static double fit_error(const struct simulated *c, size_t *pieces, bool *stated) {
    struct clock_point *p = calloc(c->n + 1, sizeof *p);
    double *truth = calloc(c->n + 1, sizeof *truth), worst = 0, end = (double)c->n * c->gap_ns;
    struct clock_line lines[CLOCK_SEGMENTS_MAX];
    size_t n = make_events(c, p, truth);
    *pieces = clock_fit(p, n, lines);
    *stated = true;
    for (size_t l = 0; l < *pieces; l++)
        for (size_t i = lines[l].first; i < lines[l].first + lines[l].n; i++) {
            double fitted = lines[l].offset_ns + lines[l].drift * (p[i].reference_ns - lines[l].at_ns);
            bool at_step = false;
            for (int s = 0; s < 3; s++)
                at_step |=
                    c->step_at[s] > 0 && fabs(p[i].reference_ns - c->step_at[s] * end) < 2.5 * c->gap_ns;
            if (at_step) continue;
            worst = fmax(worst, fabs(fitted - truth[i]));
            if (fabs(fitted - truth[i]) > lines[l].error_ns) *stated = false;
        }
    free(p);
    free(truth);
    return worst;
}

static void check_fit(const struct simulated *c, size_t expected_pieces) {
    size_t pieces;
    bool stated;
    CHECK(fit_error(c, &pieces, &stated) <= LIMIT_NS);
    CHECK(stated);
    if (expected_pieces) CHECK_INT(pieces, expected_pieces);
}

TEST(a_clock_with_offset_and_drift_is_fitted_within_5_us) {
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct simulated c = { .n = 1000,
                               .gap_ns = 2 * MS,
                               .offset_ns = 123.456 * MS,
                               .drift = 40e-6,
                               .jitter_ns = 2000,
                               .seed = seed };
        check_fit(&c, 1);
    }
}

TEST(steps_of_a_clock_are_found) {
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct simulated c = { .n = 1200,
                               .gap_ns = 1 * MS,
                               .offset_ns = -5 * MS,
                               .drift = -80e-6,
                               .jitter_ns = 1000,
                               .step_at = { 0.3, 0.7 },
                               .step_ns = { 250e3, -900 * MS },
                               .seed = seed };
        check_fit(&c, 3);
    }
}

TEST(a_clock_that_changes_its_rate_is_fitted_in_parts) {
    struct simulated c = { .n = 1500,
                           .gap_ns = 5 * MS,
                           .drift = 10e-6,
                           .jitter_ns = 1500,
                           .kink_at = 0.5,
                           .kink_drift = 400e-6,
                           .seed = 3 };
    check_fit(&c, 0);
}

TEST(outliers_and_missing_collectives_do_not_move_a_clock) {
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct simulated c = { .n = 1000,
                               .gap_ns = 3 * MS,
                               .offset_ns = 1 * MS,
                               .drift = 20e-6,
                               .jitter_ns = 1500,
                               .step_at = { 0.5 },
                               .step_ns = { 2 * MS },
                               .missing = 0.3,
                               .outliers = 0.1,
                               .seed = seed };
        check_fit(&c, 2);
    }
}

TEST(few_collectives_give_an_offset_with_a_wide_error) {
    struct clock_point p[3] = { { 0, 1000 }, { 1e6, 3000 }, { 2e6, 2000 } };
    struct clock_line lines[CLOCK_SEGMENTS_MAX];
    CHECK_INT(clock_fit(p, 0, lines), 0);
    CHECK_INT(clock_fit(p, 1, lines), 1);
    CHECK(isnan(lines[0].error_ns));
    CHECK_INT(clock_fit(p, 3, lines), 1);
    CHECK_NEAR(lines[0].offset_ns, 2000, 1e-9);
    CHECK_NEAR(lines[0].drift, 0, 0);
    CHECK(lines[0].error_ns >= 1000);
}

/* The fit of a clock that counts in 1 us steps does not divide the quantisation into pieces. */
TEST(a_coarse_clock_is_one_piece) {
    struct clock_point p[600];
    struct clock_line lines[CLOCK_SEGMENTS_MAX];
    for (int i = 0; i < 600; i++) p[i] = (struct clock_point){ i * 1e6, 1000.0 * ((i * 7919) % 3) };
    CHECK_INT(clock_fit(p, 600, lines), 1);
    CHECK_NEAR(lines[0].offset_ns, 1000, 100);
}
