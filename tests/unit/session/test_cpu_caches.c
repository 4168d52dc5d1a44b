/* Sizes of caches, from a folder like /sys/devices/system/cpu. */
#include <sched.h>
#include <stdlib.h>

#include "base/die.h"
#include "session/cpu_caches.h"
#include "unit/test.h"

static int first_cpu(void) {
    cpu_set_t set;
    int cpu = 0;
    CHECK_INT(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET(cpu, &set)) cpu++;
    return cpu;
}

/* The data cache of level 1 of the first core of this process. */
static double level1_bytes(const char *size) {
    double bytes[CPU_CACHE_LEVELS];
    char *dir = test_tmpdir(),
         *command = xasprintf("d=%s/cpu%d/cache/index0 && mkdir -p $d && cd $d && echo 1 >level && "
                              "echo Data >type && echo '%s' >size && echo 0 >shared_cpu_list",
                              dir, first_cpu(), size);
    CHECK_INT(system(command), 0); // NOLINT
    cpu_caches_read(dir, bytes);
    free(command);
    free(dir);
    return bytes[0];
}

TEST(cache_sizes_have_units) {
    CHECK_NEAR(level1_bytes("48K"), 49152, 0);
    CHECK_NEAR(level1_bytes("32M"), 33554432, 0);
    CHECK_NEAR(level1_bytes("512"), 512, 0);
}

TEST(cache_sizes_that_are_no_numbers_are_unknown) {
    CHECK_NEAR(level1_bytes("inf"), 0, 0);
    CHECK_NEAR(level1_bytes("nanK"), 0, 0);
    CHECK_NEAR(level1_bytes("-32K"), 0, 0);
    CHECK_NEAR(level1_bytes(""), 0, 0);
}
