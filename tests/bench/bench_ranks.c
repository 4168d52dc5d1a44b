/* Time and memory to merge a job, by number of ranks. Without arguments: 16, 64 and 256 ranks of 20,000
 * kernels, and the slope between them. `bench_ranks RANKS KERNELS [FOLDER]` measures one size: `bench_ranks
 * 1024 1000000`. Needs make_ranks from the test programs (`make test-build`). The traces are removed
 * afterwards. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/util.h"
#include "ranks/ranks.h"

#define LAYERS 50
#define KERNELS_A_LAYER 19 /* and one all-reduce */

struct measured {
    double seconds, cpu_seconds, peak_mb;
    unsigned long long matched;
};

static void make_part(const char *folder, unsigned ranks, unsigned steps, unsigned from, unsigned to) {
    char *self = file_self(), *bench = xstrdup(self);
    bench[file_basename(bench) - bench] = '\0';
    char *program = xasprintf("%s../tests/make_ranks", bench);
    char *args[] = { program,
                     (char *)folder,
                     xasprintf("ranks=%u", ranks),
                     xasprintf("steps=%u", steps),
                     xasprintf("layers=%d", LAYERS),
                     xasprintf("kernels=%d", KERNELS_A_LAYER),
                     xasprintf("from=%u", from),
                     xasprintf("to=%u", to),
                     xstrdup("offset_ms=10"),
                     xstrdup("drift_ppm=20"),
                     xstrdup("slow=3"),
                     xstrdup("slow_percent=5"),
                     NULL };
    execv(program, args);
    fprintf(stderr, "bench_ranks: %s: %s; run `make test-build` first\n", program, strerror(errno));
    _exit(1);
}

/* Writes the traces with one process per processor. */
static bool make_traces(const char *folder, unsigned ranks, unsigned steps) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned parts = (unsigned)MAX(1, MIN(processors, (long)ranks));
    bool good = true;
    for (unsigned i = 0; i < parts; i++)
        if (fork() == 0) make_part(folder, ranks, steps, ranks * i / parts, ranks * (i + 1) / parts);
    for (unsigned i = 0; i < parts; i++) {
        int status;
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) good = false;
    }
    return good;
}

/* In a process of its own, so that the peak is of this job. */
static void merge_child(const char *folder, int out) {
    struct measured m = { 0 };
    struct rank_job job;
    struct rusage u;
    struct err err;
    uint64_t start = clock_mono_ns();
    if (rank_job_load(&job, &folder, 1, NULL, &err) < 0) die("%s", err.msg);
    m.seconds = (double)(clock_mono_ns() - start) * 1e-9;
    m.matched = job.matched;
    rank_job_free(&job);
    getrusage(RUSAGE_SELF, &u);
    m.cpu_seconds = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                    (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
    m.peak_mb = (double)u.ru_maxrss / 1024;
    _exit(write(out, &m, sizeof m) == sizeof m ? 0 : 1);
}

static bool merge_job(const char *folder, struct measured *out) {
    int fds[2], status;
    if (pipe(fds) < 0) return false;
    pid_t child = fork();
    if (child == 0) merge_child(folder, fds[1]);
    close(fds[1]);
    bool good = child > 0 && read(fds[0], out, sizeof *out) == sizeof *out;
    close(fds[0]);
    return child > 0 && waitpid(child, &status, 0) == child && good;
}

static void remove_traces(const char *folder, unsigned ranks) {
    for (unsigned r = 0; r < ranks; r++) {
        char *path = xasprintf("%s/node%u-%u.ipt", folder, r / 8, 1000 + r);
        unlink(path);
        free(path);
    }
    char *truth = file_join(folder, "truth.json");
    unlink(truth);
    rmdir(folder);
    free(truth);
}

static bool measure(unsigned ranks, unsigned kernels, const char *folder, struct measured *m) {
    unsigned steps = MAX(1, kernels / (LAYERS * (KERNELS_A_LAYER + 1)));
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned workers = (unsigned)MAX(1, MIN(processors, (long)ranks));
    bool good = make_traces(folder, ranks, steps) && merge_job(folder, m);
    remove_traces(folder, ranks);
    if (!good) return false;
    printf("%5u ranks x %u kernels: %7.2f s, %7.2f s of CPU time (%.1f of %ld cores), %.0f ns of CPU time "
           "per kernel, %.0f MB (%.0f MB per worker thread), %llu matched collectives\n",
           ranks, kernels, m->seconds, m->cpu_seconds, m->cpu_seconds / m->seconds, processors,
           m->cpu_seconds * 1e9 / ((double)ranks * kernels), m->peak_mb, m->peak_mb / workers, m->matched);
    fflush(stdout);
    return true;
}

int main(int argc, char **argv) {
    static const unsigned sizes[] = { 16, 64, 256 };
    struct measured m[COUNTOF(sizes)];
    char *folder;
    int scratch;
    if (argc > 2) {
        if (argc > 3)
            folder = argv[3];
        else if (file_make_temporary_dir("bench-ranks", &folder, &scratch) < 0)
            return 1;
        return measure((unsigned)strtoul(argv[1], NULL, 10), (unsigned)strtoul(argv[2], NULL, 10), folder,
                       &m[0])
                   ? 0
                   : 1;
    }
    for (size_t i = 0; i < COUNTOF(sizes); i++) {
        if (file_make_temporary_dir("bench-ranks", &folder, &scratch) < 0) return 1;
        if (!measure(sizes[i], 20000, folder, &m[i])) return 1;
    }
    for (size_t i = 1; i < COUNTOF(sizes); i++)
        printf("slope from %u to %u ranks: CPU time grows as ranks^%.2f (1 is linear)\n", sizes[i - 1],
               sizes[i], log(m[i].cpu_seconds / m[i - 1].cpu_seconds) / log((double)sizes[i] / sizes[i - 1]));
    return 0;
}
