#include <math.h>

#include "base/fixed.h"
#include "unit/test.h"

TEST(fixed_text_has_a_point_and_its_decimals) {
    char t[FIXED_MAX];
    CHECK_STR(fixed_text(1.26, 1, t), "1.3");
    CHECK_STR(fixed_text(-0.04996, 4, t), "-0.0500");
    CHECK_STR(fixed_text(-0.00001, 4, t), "0.0000");
    CHECK_STR(fixed_text(12, 0, t), "12");
    CHECK_STR(fixed_text(0.999, 2, t), "1.00");
    CHECK_STR(fixed_text((double)NAN, 2, t), "?");
    CHECK_STR(fixed_text(1e300, 2, t), "?");
}
