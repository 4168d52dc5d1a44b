#include <string.h>

#include "analyze/trace_sweep.h"
#include "unit/test.h"

TEST(sweep_gives_children_and_launches_to_the_innermost) {
    struct sweep_range r[] = {
        { 0, 100, 1, 0, 0 },  /* outer */
        { 10, 40, 1, 1, 1 },  /* inner */
        { 20, 30, 1, 0, 2 },  /* outer again, inside inner: recursion */
        { 50, 120, 1, 2, 3 }, /* reaches beyond its parent */
        { 0, 100, 2, 3, 4 },  /* another thread */
    };
    struct sweep_launch l[] = { { 25, 7, 1 }, { 35, 5, 1 }, { 110, 3, 1 }, { 100, 2, 2 }, { 10, 1, 1 } };
    struct trace_stats_op rows[4] = { { .name = 0 }, { .name = 1 }, { .name = 2 }, { .name = 3 } };
    trace_sweep(r, 5, l, 5, rows, 4);
    CHECK_INT(rows[0].calls, 2);
    CHECK_INT(rows[0].total_ns, 110);
    CHECK_INT(rows[0].self_ns,
              100 - 30 - 50 + 10); /* less inner, less the part of the third inside it, plus the inner one */
    CHECK_INT(rows[0].device_ns, 7 + 5 + 1);
    CHECK_INT(rows[0].self_device_ns, 7);
    CHECK_INT(rows[1].self_ns, 20);
    CHECK_INT(rows[1].device_ns, 13);
    CHECK_INT(rows[1].self_device_ns, 6);
    CHECK_INT(rows[2].device_ns, 3); /* the parent had ended */
    CHECK_INT(rows[3].device_ns, 0); /* launched the moment it ended */
}

TEST(sweep_takes_the_first_recorded_of_two_equals_as_the_parent) {
    struct sweep_range r[] = { { 0, 10, 1, 1, 1 }, { 0, 10, 1, 0, 0 } };
    struct trace_stats_op rows[2] = { { .name = 0 }, { .name = 1 } };
    trace_sweep(r, 2, NULL, 0, rows, 2);
    CHECK_INT(rows[0].self_ns, 0);
    CHECK_INT(rows[1].self_ns, 10);
}
