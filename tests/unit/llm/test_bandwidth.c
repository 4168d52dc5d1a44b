#include <math.h>

#include "llm/bandwidth.h"
#include "unit/test.h"

TEST(a_working_set_gets_the_bandwidth_of_the_size_below_it) {
    const struct llm_levels levels = {
        { { "L2", 1048576, 100e9 }, { "L3", 33554432, 50e9 }, { "DRAM", 536870912, 10e9 } }, 3
    };
    const struct llm_levels none = { .n = 0 };
    const struct {
        double bytes;
        const char *name;
    } rows[] = { { 1000, "L2" },      { 1048576, "L2" },     { 20e6, "L2" },  { 33554432, "L3" },
                 { 536870911, "L3" }, { 536870912, "DRAM" }, { 1e12, "DRAM" } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_STR(llm_level_for(&levels, rows[i].bytes)->name, rows[i].name);
    CHECK(!llm_level_for(&levels, NAN));
    CHECK(!llm_level_for(&levels, 0));
    CHECK(!llm_level_for(&none, 1e6));
    char text[48];
    CHECK_STR(llm_level_text(&levels.v[1], text, sizeof text), "L3, 32 MiB");
    CHECK_STR(llm_level_text_for(&levels.v[1], 34e6, text, sizeof text), "L3, 32 MiB");
    CHECK_STR(llm_level_text_for(&levels.v[1], 55e6, text, sizeof text), "measured at 32 MiB, upper bound");
    CHECK_STR(llm_level_text_for(&levels.v[2], 1e12, text, sizeof text), "DRAM, 512 MiB");
    CHECK_STR(llm_level_text(&(struct llm_level){ "L2", 262144, 1 }, text, sizeof text), "L2, 256 KiB");
}

TEST(a_disturbed_size_is_at_least_as_fast_as_larger_ones) {
    struct llm_levels levels = { { { "L2", 1, 100 }, { "L3", 2, 5 }, { "L3", 3, 20 }, { "DRAM", 4, 10 } },
                                 4 };
    llm_levels_settle(&levels);
    CHECK_NEAR(levels.v[0].bytes_per_s, 100, 0);
    CHECK_NEAR(levels.v[1].bytes_per_s, 20, 0);
    CHECK_NEAR(levels.v[3].bytes_per_s, 10, 0);
}
