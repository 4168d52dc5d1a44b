/* Signs of a busy machine: load average, threads that wait for a core, little CPU time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "session/contention.h"
#include "unit/test.h"

/* A folder like /proc with process 7 and its two threads. Times in ns. */
static char *make_proc(const char *load, unsigned long run, unsigned long wait) {
    char *dir = test_tmpdir(),
         *command = xasprintf("cd %s && mkdir -p 7/task/7 7/task/8 && echo '%s 0 0 1/1 1' >loadavg && "
                              "echo '%lu %lu 5' >7/task/7/schedstat && echo '%lu 0 5' >7/task/8/schedstat",
                              dir, load, run, wait, run);
    CHECK_INT(system(command), 0); // NOLINT
    free(command);
    setenv("INFERPROF_PROC", dir, 1);
    return dir;
}

static struct contention measured(const char *load, unsigned long run, unsigned long wait, uint64_t wall) {
    struct contention c;
    struct contention_times before = { .known = true };
    free(make_proc(load, run, wait));
    contention_start(&c);
    c.cores = 4;
    contention_add(&c, 7, &before, wall);
    unsetenv("INFERPROF_PROC");
    return c;
}

TEST(contention_is_not_reported_on_an_idle_machine) {
    struct contention c = measured("3.9", 1000, 20, 1000);
    CHECK_INT(c.run_ns, 2000);
    CHECK_INT(c.wait_ns, 20);
    char *why = contention_reason(&c, true);
    CHECK(!why);
    free(why);
}

TEST(contention_names_each_sign) {
    struct contention c = measured("11.03", 1000, 2000, 1000);
    char *why = contention_reason(&c, true);
    CHECK_STR(
        why,
        "the load average was 11.0 on 4 cores, the engine's threads waited 50% of their time for a core");
    free(why);
    c = measured("0.5", 100, 0, 1000);
    why = contention_reason(&c, true);
    CHECK_STR(why, "the engine used 0.20 s of CPU time per second");
    free(why);
    why = contention_reason(&c, false); /* a GPU computes while the process waits */
    CHECK(!why);
    free(why);
}

TEST(contention_without_proc_is_unknown) {
    struct contention c;
    char *dir = test_tmpdir();
    setenv("INFERPROF_PROC", dir, 1);
    contention_start(&c);
    struct contention_times t = contention_times(7);
    unsetenv("INFERPROF_PROC");
    CHECK(!t.known);
    contention_add(&c, 7, &t, 1000);
    char *why = contention_reason(&c, true);
    CHECK(!why);
    free(why);
    free(dir);
}
