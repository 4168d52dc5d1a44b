#include <stdarg.h>
#include <stdlib.h>

#include "collect/settings.c"
#include "unit/test.h"

static char warnings[4][200];
static unsigned nwarnings;

static void warn(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    if (nwarnings < 4) vsnprintf(warnings[nwarnings++], sizeof warnings[0], fmt, ap);
    va_end(ap);
}

static void load(struct settings *s) {
    nwarnings = 0;
    settings_load(s, warn);
}

TEST(settings_have_defaults) {
    struct settings s;
    load(&s);
    CHECK_INT(nwarnings, 0);
    CHECK_STR(s.dir, "");
    CHECK_INT(s.memory_bytes, 64 << 20);
    CHECK(s.kernels && s.copies && s.launches && s.syncs && s.nvtx && !s.gemms && !s.empty);
}

TEST(invalid_and_unknown_settings_are_reported_and_ignored) {
    struct settings s;
    setenv("INFERPROF_COLLECT_DELAY_US", "-3", 1);
    setenv("INFERPROF_COLLECT_MEMORY", "64MiB", 1);
    setenv("INFERPROF_COLLECT_NONSENSE", "1", 1);
    load(&s);
    unsetenv("INFERPROF_COLLECT_DELAY_US");
    unsetenv("INFERPROF_COLLECT_MEMORY");
    unsetenv("INFERPROF_COLLECT_NONSENSE");
    CHECK_INT(nwarnings, 3);
    CHECK_STR(warnings[0], "INFERPROF_COLLECT_DELAY_US=-3 is invalid; using the default '0'");
    CHECK_STR(warnings[1], "INFERPROF_COLLECT_MEMORY=64MiB is invalid; using the default '67108864'");
    CHECK_STR(warnings[2], "unknown variable INFERPROF_COLLECT_NONSENSE");
    CHECK_INT(s.memory_bytes, 64 << 20);
}

TEST(buffer_size_is_limited_by_memory) {
    struct settings s;
    setenv("INFERPROF_COLLECT_MEMORY", "1", 1);
    setenv("INFERPROF_COLLECT_BUFFER", "999999999", 1);
    load(&s);
    unsetenv("INFERPROF_COLLECT_MEMORY");
    unsetenv("INFERPROF_COLLECT_BUFFER");
    CHECK_INT(s.memory_bytes, 4 << 20);
    CHECK_INT(s.buffer_bytes, 512 << 10);
}

TEST(numbers_are_whole_and_no_locale_changes_them) {
    struct settings s;
    setenv("INFERPROF_COLLECT_DELAY_US", "500000", 1);
    setenv("INFERPROF_COLLECT_BUDGET_PPM", "1.5", 1);
    setenv("INFERPROF_COLLECT_DURATION_US", "1,5", 1);
    load(&s);
    unsetenv("INFERPROF_COLLECT_DELAY_US");
    unsetenv("INFERPROF_COLLECT_BUDGET_PPM");
    unsetenv("INFERPROF_COLLECT_DURATION_US");
    CHECK_INT(nwarnings, 2);
    CHECK_STR(warnings[0], "INFERPROF_COLLECT_DURATION_US=1,5 is invalid; using the default '0'");
    CHECK_STR(warnings[1], "INFERPROF_COLLECT_BUDGET_PPM=1.5 is invalid; using the default '0'");
    CHECK_INT(s.delay_us, 500000);
    CHECK_INT(s.duration_us, 0);
}
