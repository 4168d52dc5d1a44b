/* Time of a launch with the mock CUPTI: without a collector, with an empty collector that discards its
 * records (the floor), and with the collector. With warm caches, and with caches filled by other work
 * between two launches. Medians over processes that alternate. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/stats.h"
#include "mock/mock.h"

#define TURNS 5
#define LAUNCHES 50000
#define HELD_UP_NS 50000
#define OTHER_BYTES ((size_t)1 << 20) /* memory touched between two launches */

enum arm { NOTHING, FLOOR, COLLECTOR, NARMS };
static const char *const what[] = {
    [FLOOR] = "kernels,empty", [COLLECTOR] = "kernels,copies,launches,syncs,nvtx"
};

static void *symbol(const char *library, const char *name) {
    void *lib = dlopen(library, RTLD_NOW), *f = lib ? dlsym(lib, name) : NULL;
    if (!f) die("%s", dlerror());
    return f;
}

static void other_work(uint8_t *memory, bool cold) {
    for (size_t i = 0; cold && i < OTHER_BYTES; i += 64) memory[i]++;
}

/* Mean ns per launch. Launches longer than HELD_UP_NS are ignored, because another process interrupted
 * them. */
static double measure(mock_work_fn launch, bool cold) {
    uint8_t *memory = xcalloc(OTHER_BYTES, 1);
    uint64_t sum_ns = 0, n = 0;
    for (int i = 0; i < LAUNCHES; i++) {
        other_work(memory, cold);
        uint64_t before = clock_mono_ns();
        launch(MOCK_KERNEL, "kernel", 7);
        uint64_t took = clock_mono_ns() - before;
        if (took > HELD_UP_NS) continue;
        sum_ns += took;
        n++;
    }
    free(memory);
    return (double)sum_ns / (double)n;
}

/* Runs in a separate process, because the collector reads its settings once and cannot be unloaded. */
static void child(enum arm arm, bool cold, const char *folder, const char *build, int to) {
    char *cupti = file_join(build, "tests/mock/libcupti.so.13");
    setenv("INFERPROF_COLLECT_DIR", folder, 1);
    setenv("INFERPROF_COLLECT_CUPTI", cupti, 1);
    mock_work_fn launch;
    int (*start)(void);
    void *f = symbol(cupti, "mock_work");
    memcpy(&launch, &f, sizeof f);
    if (arm != NOTHING) {
        setenv("INFERPROF_COLLECT_WHAT", what[arm], 1);
        f = symbol(file_join(build, "libinferprof-collector.so"), "InitializeInjection");
        memcpy(&start, &f, sizeof f);
        start();
    }
    measure(launch, false); /* the collector's clock fit is ready after 0.2 s */
    usleep(500000);
    double mean = measure(launch, cold);
    if (write(to, &mean, sizeof mean) != sizeof mean) _exit(1);
    exit(0);
}

static double in_child(enum arm arm, bool cold, const char *folder, const char *build) {
    int fds[2], status;
    double mean;
    if (pipe(fds) != 0) die("pipe failed");
    fflush(stdout); /* otherwise the child would print the buffered text again */
    pid_t pid = fork();
    if (pid == 0) child(arm, cold, folder, build, fds[1]);
    close(fds[1]);
    if (read(fds[0], &mean, sizeof mean) != sizeof mean) die("a child failed");
    close(fds[0]);
    waitpid(pid, &status, 0);
    return mean;
}

int main(void) {
    char folder[] = "/tmp/inferprof-bench-XXXXXX", command[64];
    char *here = file_self(), *slash = here ? strrchr(here, '/') : NULL;
    if (slash) *slash = '\0';
    char *build = file_join(here ? here : ".", "..");
    if (!mkdtemp(folder)) die("mkdtemp failed");
    for (int cold = 0; cold < 2; cold++) {
        double ns[NARMS][TURNS], over[TURNS];
        for (int turn = 0; turn < TURNS; turn++) {
            for (enum arm a = 0; a < NARMS; a++) ns[a][turn] = in_child(a, cold, folder, build);
            over[turn] = ns[COLLECTOR][turn] - ns[FLOOR][turn];
        }
        printf("%s caches: launch %.0f ns, floor %.0f, collector %.0f; collector over floor %.0f ns\n",
               cold ? "cold" : "warm", stats_of(ns[NOTHING], TURNS).median, stats_of(ns[FLOOR], TURNS).median,
               stats_of(ns[COLLECTOR], TURNS).median, stats_of(over, TURNS).median);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) die("%s stays", folder);
    free(build);
    free(here);
    return 0;
}
