#include <math.h>
#include <string.h>

#include "report/compare.h"
#include "unit/test.h"

TEST(junit_counts_exactly_the_skipped_test_cases) {
    struct compare_row rows[] = {
        { .name = "prefill", .unit = "ms", .a = 1, .b = 1, .verdict = COMPARE_SAME },
        { .name = "decode", .unit = "ms", .a = 1, .b = 1, .verdict = COMPARE_CANNOT_TELL, .reason = "few" },
        { .name = "tokens", .unit = "tokens", .a = 1, .b = 2, .verdict = COMPARE_DIFFERENT },
    };
    struct comparison c = { .stages = { rows, 3, 3 } };
    struct strbuf out = STRBUF_INIT;
    size_t skipped = 0;
    compare_junit(&c, NAN, &out);
    CHECK(strstr(out.buf, "tests=\"3\" failures=\"0\" skipped=\"1\"") != NULL);
    for (const char *p = out.buf; (p = strstr(p, "<skipped")); p++) skipped++;
    CHECK_INT(skipped, 1);
    strbuf_free(&out);
}
