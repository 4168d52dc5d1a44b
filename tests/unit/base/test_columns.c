/* Formats of table cells. */
#include <math.h>

#include "base/columns.h"
#include "unit/test.h"

static void check_cell(enum column_format format, int decimals, double value, const char *want) {
    const struct column c = {
        .heading = "h", .format = format, .source = { .offset = 0, .type = COLUMN_F64 }, .decimals = decimals
    };
    struct strbuf out = STRBUF_INIT;
    column_show(&c, &(struct column_row){ .item = &value }, &out);
    CHECK_STR(out.buf, want);
    strbuf_free(&out);
}

TEST(small_rates_are_not_shown_as_zero) {
    check_cell(COLUMN_GIGA, 0, 932.4e9, "932");
    check_cell(COLUMN_GIGA, 0, 0.41e9, "0.41");
    check_cell(COLUMN_GIGA, 0, 0.0062e9, "0.0062");
    check_cell(COLUMN_GIGA, 1, 0.41e9, "0.41");
    check_cell(COLUMN_GIGA, 3, 1.5e9, "1.500");
    check_cell(COLUMN_GIGA, 0, 0, "0");
    check_cell(COLUMN_GIGA, 0, NAN, "–");
    check_cell(COLUMN_TERA, 2, 0.004e12, "0.0040");
}
