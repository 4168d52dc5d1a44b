#include <string.h>

#include "history/query.h"
#include "unit/test.h"

#define NOW_NS 1800000000000000000

static int64_t time_of(const char *text) {
    struct err err;
    int64_t ns = -1;
    return history_parse_time(text, NOW_NS, &ns, &err) == 0 ? ns : -1;
}

TEST(times_are_ages_or_dates) {
    CHECK_INT(time_of("2d"), NOW_NS - 2 * 86400000000000);
    CHECK_INT(time_of("90m"), NOW_NS - 90 * 60000000000);
    CHECK_INT(time_of("1970-01-02"), 86400000000000);
    CHECK_INT(time_of("2d "), -1);
    CHECK_INT(time_of("-2d"), -1);
    CHECK_INT(time_of("5"), -1);
}

TEST(ages_of_centuries_are_the_beginning_of_time) {
    CHECK_INT(time_of("100000w"), 1);
    CHECK_INT(time_of("100000d"), 1);
    CHECK_INT(time_of("20000w"), 1);
}

static bool cursor_is_valid(const char *sort, const char *cursor) {
    struct history_filter f = { .sort = sort, .cursor = cursor };
    struct err err;
    return history_check_cursor(&f, &err) == 0;
}

/* PostgreSQL refuses numbers that are too small or too large for a double. */
TEST(cursors_with_values_that_no_database_returns_are_not_valid) {
    CHECK(cursor_is_valid("mfu", "7.302e35"));        /* 0.5 */
    CHECK(!cursor_is_valid("mfu", "7.31652d343030")); /* 1e-400 */
    CHECK(!cursor_is_valid("mfu", "7.316534"
                                  "3030"));     /* 1e400 */
    CHECK(!cursor_is_valid("mfu", "7.6e616e")); /* nan */
    CHECK(!cursor_is_valid("mfu", "7."));
    CHECK(cursor_is_valid("started", "7.3137")); /* 17 */
    CHECK(!cursor_is_valid("started", "7.302e35"));
    CHECK(cursor_is_valid("name", "7.612e")); /* a. */
    CHECK(!cursor_is_valid("name", "7.ff"));
    CHECK(!cursor_is_valid("name", "x.61"));
}
