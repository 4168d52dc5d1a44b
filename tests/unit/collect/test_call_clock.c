#include <limits.h>

#include "collect/call_clock.c"
#include "unit/test.h"

static const uint64_t noon_ns = 1700000000000000000u;

static void draw_line(uint64_t ns_per_tick) {
    publish_line(&(struct point){ counter_now(), noon_ns }, ns_per_tick);
}

TEST(call_clock_is_the_wall_clock_without_a_line) {
    atomic_store(&call_clock.version, 0);
    uint64_t before = clock_wall_ns(), now = call_clock_ns(), after = clock_wall_ns();
    CHECK(before <= now && now <= after);
}

TEST(call_clock_follows_its_line) {
    draw_line(0);
    CHECK_INT(call_clock_ns(), noon_ns);
    draw_line((uint64_t)1 << 31); /* 0.5 ns per tick */
    uint64_t first = counter_now(), a = call_clock_ns(), b = call_clock_ns(), last = counter_now();
    CHECK(noon_ns <= a && a <= b);
    CHECK(b - a <= (last - first) / 2 + 1);
}

TEST(call_clock_does_not_wrap_on_a_core_whose_counter_lags) {
    publish_line(&(struct point){ counter_now() + (1u << 30), noon_ns }, (uint64_t)1 << 31);
    uint64_t now = call_clock_ns();
    CHECK(noon_ns - (1u << 30) <= now && now < noon_ns);
}

TEST(call_clock_drops_its_line_after_a_clock_jump) {
    if (!counter_is_steady()) return;
    draw_line(0); /* years before now */
    call_clock_tick();
    uint64_t before = clock_wall_ns(), now = call_clock_ns(), after = clock_wall_ns();
    CHECK(before <= now && now <= after);
}

TEST(call_clock_version_skips_zero_when_it_wraps) {
    atomic_store(&call_clock.version, UINT_MAX - 1);
    draw_line(0);
    CHECK_INT(atomic_load(&call_clock.version), 2);
    CHECK_INT(call_clock_ns(), noon_ns);
}
