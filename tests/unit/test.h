/* A test is named after the behaviour it checks, builds its own input and compares whole values.
 *     TEST(vec_keeps_pushed_values) { ... CHECK_INT(v.n, 3); }
 * Tests register themselves; cmocka runs them. SKIP("why") needs a line in tests/expected_skips.txt. */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

void test_register(const char *name, CMUnitTestFunction run);

#define TEST(name)                                                                                 \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void register_##name(void) { test_register(#name, name); } \
    static void name(void **state __attribute__((unused)))

#define CHECK(x) assert_true(x)
#define CHECK_INT(got, want) assert_int_equal(got, want)
#define CHECK_STR(got, want) assert_string_equal(got, want)
#define CHECK_MEM(got, want, n) assert_memory_equal(got, want, n)
#define CHECK_NEAR(got, want, eps) assert_true(test_near((double)(got), (double)(want), (double)(eps), #got))
#define SKIP(why)                                         \
    do {                                                  \
        fprintf(stderr, "skip: %s: %s\n", __func__, why); \
        skip();                                           \
    } while (0)

/* prints `what` and both values on mismatch */
int test_near(double got, double want, double eps, const char *what);
char *test_tmpdir(void); /* a fresh folder under $TMPDIR, removed at exit; caller frees the name */

#endif
