#include <stdarg.h>
#include <stdlib.h>

#include "collect/settings.c"
#include "unit/test.h"

static char complaints[4][200];
static unsigned ncomplaints;

static void complain(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    if (ncomplaints < 4) vsnprintf(complaints[ncomplaints++], sizeof complaints[0], fmt, ap);
    va_end(ap);
}

static void load(struct settings *s) {
    ncomplaints = 0;
    settings_load(s, complain);
}

TEST(settings_have_defaults) {
    struct settings s;
    load(&s);
    CHECK_INT(ncomplaints, 0);
    CHECK_STR(s.dir, "");
    CHECK_INT(s.memory_bytes, 64 << 20);
    CHECK(s.kernels && s.copies && s.launches && s.syncs && s.nvtx && !s.gemms && !s.empty);
}

TEST(settings_that_cannot_be_used_are_named_and_left_out) {
    struct settings s;
    setenv("INFERPROF_COLLECT_DELAY", "-3", 1);
    setenv("INFERPROF_COLLECT_MEMORY", "64MiB", 1);
    setenv("INFERPROF_COLLECT_NONSENSE", "1", 1);
    load(&s);
    unsetenv("INFERPROF_COLLECT_DELAY");
    unsetenv("INFERPROF_COLLECT_MEMORY");
    unsetenv("INFERPROF_COLLECT_NONSENSE");
    CHECK_INT(ncomplaints, 3);
    CHECK_STR(complaints[0], "INFERPROF_COLLECT_DELAY=-3 cannot be used; going on with '0'");
    CHECK_STR(complaints[1], "INFERPROF_COLLECT_MEMORY=64MiB cannot be used; going on with '67108864'");
    CHECK_STR(complaints[2], "the variable INFERPROF_COLLECT_NONSENSE is not one the collector knows");
    CHECK_INT(s.memory_bytes, 64 << 20);
}

TEST(settings_keep_buffers_within_the_memory) {
    struct settings s;
    setenv("INFERPROF_COLLECT_MEMORY", "1", 1);
    setenv("INFERPROF_COLLECT_BUFFER", "999999999", 1);
    load(&s);
    unsetenv("INFERPROF_COLLECT_MEMORY");
    unsetenv("INFERPROF_COLLECT_BUFFER");
    CHECK_INT(s.memory_bytes, 4 << 20);
    CHECK_INT(s.buffer_bytes, 512 << 10);
}
