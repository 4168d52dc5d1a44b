#include <math.h>
#include <string.h>

#include "base/difference.h"
#include "base/hash.h"
#include "base/util.h"
#include "unit/test.h"

#define ROWS 8

static uint64_t draws;
static double uniform(void) { return ((double)(hash_u64(++draws) >> 11) + 0.5) / 9007199254740992.0; }
static double normal(void) { return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()); }

/* Tables of ROWS rows with n processes per side, B slower by `slowdown`. Returns the number of tables that
 * show any difference. */
static int tables_with_a_verdict(int tables, size_t n, double spread, double slowdown) {
    double a[ROWS][16], b[ROWS][16];
    int shown = 0;
    for (int t = 0; t < tables; t++) {
        struct difference_row rows[ROWS];
        for (size_t i = 0; i < n; i++) {
            double speed_a = spread * normal(),
                   speed_b = spread * normal(); /* rows of a process are correlated */
            for (size_t r = 0; r < ROWS; r++) {
                a[r][i] = 100 * exp(speed_a + spread * normal());
                b[r][i] = 100 * exp(speed_b + spread * normal()) * (1 + slowdown);
            }
        }
        for (size_t r = 0; r < ROWS; r++)
            rows[r] = (struct difference_row){ a[r], b[r], NAN, NAN, NAN, NAN, NAN, NAN };
        difference_test(rows, ROWS, n, n, NULL, NULL);
        bool any = false;
        for (size_t r = 0; r < ROWS; r++) any |= rows[r].verdict == DIFFERENCE_SHOWN;
        shown += any;
    }
    return shown;
}

TEST(at_most_5_percent_of_tables_of_equal_sides_show_a_difference) {
    draws = 0;
    CHECK(tables_with_a_verdict(1000, 5, 0.01, 0) <= 60); /* expected: 47, with a standard deviation of 7 */
    CHECK(tables_with_a_verdict(1000, 4, 0.01, 0) <= 60);
    CHECK(tables_with_a_verdict(100, 8, 0.01, 0) <= 10);
    CHECK_INT(tables_with_a_verdict(200, 3, 0.01, 0), 0);
    CHECK_INT(tables_with_a_verdict(200, 1, 0.01, 0), 0);
}

TEST(five_processes_show_a_slowdown_of_5_percent) {
    draws = 1u << 20;
    CHECK(tables_with_a_verdict(200, 5, 0.005, 0.05) >= 190);
    CHECK(tables_with_a_verdict(200, 5, 0.01, 0.05) >= 160);
}

/* Tables of processes in the order ABBAABBAAB. The speed of the machine drifts from process to process (AR1,
 * deviation 9%, correlation 0.99), and every process has noise of its own (1%). Returns the number of tables
 * that show a difference in the first row, or in any row if there is no slowdown. */
static int drifting_tables_with_a_verdict(int tables, double slowdown, bool use_blocks) {
    static const bool is_b[10] = { 0, 1, 1, 0, 0, 1, 1, 0, 0, 1 };
    int shown = 0;
    for (int t = 0; t < tables; t++) {
        double a[ROWS][5], b[ROWS][5], drift = 0.09 * normal();
        uint32_t in_order[10], block[10];
        size_t n[2] = { 0, 0 };
        CHECK_INT(difference_blocks(is_b, 10, in_order), 2);
        for (size_t i = 0; i < 10; i++) {
            double own = 0.007 * normal();
            size_t at = n[is_b[i]]++;
            for (size_t r = 0; r < ROWS; r++) {
                double ms = 100 * exp(drift + own + 0.007 * normal());
                if (is_b[i])
                    b[r][at] = ms * (1 + slowdown);
                else
                    a[r][at] = ms;
            }
            block[is_b[i] ? 5 + at : at] = in_order[i];
            drift = 0.99 * drift + 0.09 * sqrt(1 - 0.99 * 0.99) * normal();
        }
        struct difference_row rows[ROWS];
        for (size_t r = 0; r < ROWS; r++)
            rows[r] = (struct difference_row){ a[r], b[r], NAN, NAN, NAN, NAN, NAN, NAN };
        difference_test(rows, ROWS, 5, 5, use_blocks ? block : NULL, NULL);
        bool any = false;
        for (size_t r = 0; r < (slowdown > 0 ? 1 : ROWS); r++) any |= rows[r].verdict == DIFFERENCE_SHOWN;
        shown += any;
    }
    return shown;
}

TEST(blocks_see_more_slowdowns_while_the_machine_drifts) {
    draws = 1u << 21;
    int without = drifting_tables_with_a_verdict(200, 0.05, false);
    draws = 1u << 21;
    int with = drifting_tables_with_a_verdict(200, 0.05, true);
    CHECK(with >= 155);                                        /* expected: 167 */
    CHECK(with >= without + 10);                               /* expected: 150 without blocks */
    CHECK(drifting_tables_with_a_verdict(400, 0, true) <= 30); /* expected: 20 at most */
}

TEST(processes_that_alternate_form_blocks) {
    static const struct {
        const char *order;
        size_t blocks;
    } cases[] = { { "ABBAABBAAB", 2 }, { "ABABABABAB", 2 },   { "AAAAABBBBB", 1 }, { "ABBAABBA", 1 },
                  { "AABAB", 1 },      { "ABBAABBAABBA", 3 }, { "AABBBBAAAB", 2 }, { "", 1 } };
    for (size_t c = 0; c < COUNTOF(cases); c++) {
        bool is_b[16];
        uint32_t block[16];
        size_t n = strlen(cases[c].order);
        for (size_t i = 0; i < n; i++) is_b[i] = cases[c].order[i] == 'B';
        CHECK_INT(difference_blocks(is_b, n, block), cases[c].blocks);
        for (size_t i = 0; i < n; i++) CHECK(block[i] < cases[c].blocks);
    }
}

TEST(a_step_of_the_machine_between_blocks_is_no_difference) {
    /* the machine becomes 20% faster after four processes; B is slower by 3% */
    const double a[] = { 120, 120.2, 100, 100.1, 100.2 }, b[] = { 123.6, 123.7, 103, 103.1, 103.2 };
    const uint32_t block[] = { 0, 0, 1, 1, 1, 0, 0, 1, 1, 1 };
    struct difference_row r = { a, b, NAN, NAN, NAN, NAN, 0.01, 0.01 };
    difference_test(&r, 1, 5, 5, NULL, NULL);
    CHECK_INT(r.verdict, DIFFERENCE_NONE);
    r = (struct difference_row){ a, b, NAN, NAN, NAN, NAN, 0.01, 0.01 };
    difference_test(&r, 1, 5, 5, block, NULL);
    CHECK_INT(r.verdict, DIFFERENCE_SHOWN);
    CHECK_NEAR(r.change, 0.03, 0.002);
    CHECK_NEAR(r.p, 2.0 / 120, 1e-12);
    CHECK(!r.unstable);
    /* a block without a value of A in one row: the row is tested without removal of the drift */
    const double gap[] = { NAN, NAN, 100, 100.1, 100.2 };
    r = (struct difference_row){ gap, b, NAN, NAN, NAN, NAN, 0.01, 0.01 };
    difference_test(&r, 1, 5, 5, block, NULL);
    CHECK_NEAR(r.a_median, 100.1, 1e-9);
}

static struct difference_row one_row(const double *a, size_t na, const double *b, size_t nb) {
    struct difference_row row = { a, b, NAN, NAN, NAN, NAN, 0.01, 0.01 };
    difference_test(&row, 1, na, nb, NULL, NULL);
    return row;
}

TEST(the_interval_holds_the_change_of_the_medians) {
    const double a[] = { 100, 101, 99, 100, 100.5 }, b[] = { 110, 111, 109, 110, 110.5 };
    struct difference_row r = one_row(a, 5, b, 5);
    CHECK_NEAR(r.a_median, 100, 0);
    CHECK_NEAR(r.change, 0.1, 1e-12);
    CHECK(r.low > 0.07 && r.low < 0.1 && r.high > 0.1 && r.high < 0.13);
    CHECK_NEAR(r.p, 2.0 / 252, 1e-12);
    CHECK_INT(r.verdict, DIFFERENCE_SHOWN);
    CHECK(!r.unstable);
}

TEST(one_process_per_side_shows_only_large_differences) {
    const double a[] = { 100 }, near[] = { 109 }, far[] = { 130 };
    CHECK_INT(one_row(a, 1, near, 1).verdict, DIFFERENCE_CANNOT_TELL);
    CHECK_INT(one_row(a, 1, far, 1).verdict, DIFFERENCE_SHOWN);
    struct difference_row overlap = { a, far, 80, 135, 120, 140, 0.01, 0.01 };
    difference_test(&overlap, 1, 1, 1, NULL, NULL);
    CHECK_INT(overlap.verdict, DIFFERENCE_CANNOT_TELL);
    struct difference_row loaded = { a, far, 95, 105, 125, 135, 0.06, 0.01 };
    difference_test(&loaded, 1, 1, 1, NULL, NULL);
    CHECK_INT(loaded.verdict, DIFFERENCE_CANNOT_TELL);
    CHECK(loaded.unstable);
    struct difference_row once = { a, far, 100, 100, 130, 130, NAN, NAN }; /* one repeat */
    difference_test(&once, 1, 1, 1, NULL, NULL);
    CHECK_INT(once.verdict, DIFFERENCE_CANNOT_TELL);
}

TEST(an_unstable_side_shows_only_large_differences) {
    const double a[] = { 70, 71, 70, 71, 60 }, b[] = { 74, 75, 74, 75, 76 },
                 c[] = { 140, 145, 150, 155, 160 };
    struct difference_row small = one_row(a, 5, b, 5), large = one_row(a, 5, c, 5);
    CHECK(small.unstable && large.unstable);
    CHECK(small.verdict != DIFFERENCE_SHOWN);
    CHECK_INT(large.verdict, DIFFERENCE_SHOWN);
}

TEST(values_that_cannot_be_compared) {
    const double zero[] = { 0, 0, 0, 0 }, some[] = { 1, 2, 1, 2 }, none[] = { NAN, NAN, NAN, NAN };
    CHECK_INT(one_row(zero, 4, zero, 4).verdict, DIFFERENCE_NONE);
    CHECK_INT(one_row(zero, 4, some, 4).verdict, DIFFERENCE_UNKNOWN);
    CHECK_INT(one_row(none, 4, some, 4).verdict, DIFFERENCE_UNKNOWN);
    CHECK(isnan(one_row(none, 4, some, 4).change));
    CHECK_INT(one_row(some, 4, some, 4).verdict, DIFFERENCE_NONE);
}

TEST(how_many_processes_can_be_tested) {
    CHECK(!difference_can_test(1, 1) && !difference_can_test(3, 3) && !difference_can_test(0, 20));
    CHECK(difference_can_test(4, 4) && difference_can_test(3, 5) && difference_can_test(1, 19));
}
