#include "session/cpu_peak.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "session/cpu_caches.h"
#include "session/cpu_peak_kernels.h"
#include "session/peak_cache.h"

/* Working sets of all threads together: powers of two. The largest one is larger than the caches of most
 * machines, the smallest one fits into the L2 caches of two cores. */
#define SWEEP_LEAST ((size_t)256 << 10)
#define SWEEP_MOST ((size_t)512 << 20)
#define SWEEP_SIZES 12
#define MEASURE_SECONDS 0.12
#define CACHE_SECONDS 0.05 /* time for each size except the largest */
/* A size counts as DRAM if its rate is within this factor of the rate of the largest size, regardless of the
 * caches that a virtual machine reports. */
#define DRAM_LIKE 1.25
#define CLOCK_BYTES ((size_t)4 << 20) /* minimum number of bytes read between two readings of the clock */
#define MIN_ROUNDS 3
#define MAX_ROUNDS 9
/* Largest spread of a stable measurement. The spread is 0.01 to 0.03 on idle machines, and 0.1 or more with
 * other load on the memory bus. */
#define STABLE_SPREAD 0.05
#define STABLE_SHARE 0.9 /* smallest cpu_share of a stable measurement; idle machines: above 0.98 */
#define MAX_THREADS 1024u

void cpu_name(char *out, unsigned long cap) {
    struct strbuf text = STRBUF_INIT;
    struct err err;
    snprintf(out, cap, "unknown CPU");
    if (file_read("/proc/cpuinfo", 16u << 20, &text, &err) == 0) {
        const char *at = strstr(text.buf, "model name");
        if (at) at = strchr(at, ':');
        if (at) snprintf(out, cap, "%.*s", (int)strcspn(at + 2, "\n"), at + 2);
    }
    strbuf_free(&text);
}

unsigned cpu_usable(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return (unsigned)CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}

/* ---- Measurement */

struct worker {
    const struct cpu_kernels *kernels;
    const struct cpu_bf16 *bf16; /* if not NULL: its product */
    const uint64_t *memory;      /* this thread's part of the memory; NULL: run a matrix product */
    size_t words;
    double seconds;
    double amount_per_s; /* FLOP or bytes per second of CPU time */
    double cpu_share;    /* CPU time / wall time */
    uint64_t keep;       /* prevents dead code elimination */
};

static void fill_random(float *v, size_t n) {
    for (size_t i = 0; i < n; i++) v[i] = (float)(i % 7) * 0.25f - 0.5f;
}

/* Computes one matrix product. The outer loop is over panels of B, so that each stays in the L1 cache. */
static void gemm(const struct cpu_kernels *kn, const float *a, const float *b, float *c) {
    for (int n = 0; n < GEMM_N / PANEL_N; n++)
        for (int m = 0; m < GEMM_M / PANEL_M; m++)
            kn->panel(a + m * PANEL_M * GEMM_K, b + n * PANEL_N * GEMM_K,
                      c + (m * (GEMM_N / PANEL_N) + n) * PANEL_M * PANEL_N, GEMM_K);
}

/* Returns CPU time instead of wall time, so that other programs do not lower the result. */
static uint64_t thread_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* `a` is followed by b and c. As bf16 numbers, the words of a and b are small numbers and zeros too. */
static void multiply(const struct worker *w, float *a) {
    float *b = a + GEMM_M * GEMM_K, *c = b + GEMM_K * GEMM_N;
    if (w->bf16)
        w->bf16->product((const uint32_t *)(const void *)a, (const uint32_t *)(const void *)b, c);
    else
        gemm(w->kernels, a, b, c);
}

static void *measure_thread(void *arg) {
    struct worker *w = arg;
    size_t na = GEMM_M * GEMM_K, nb = GEMM_K * GEMM_N, nc = GEMM_M * GEMM_N;
    float *a = w->memory ? NULL : xmalloc((na + nb + nc) * sizeof *a);
    if (a) fill_random(a, na + nb + nc);
    uint64_t from = clock_mono_ns(), end = from + (uint64_t)(w->seconds * 1e9), begin = thread_cpu_ns();
    double amount = 0;
    size_t passes = w->words ? MAX(CLOCK_BYTES / (w->words * 8), 1) : 1;
    do { /* all threads run for the same wall time, so that they load the machine together */
        if (a)
            multiply(w, a);
        else
            for (size_t i = 0; i < passes; i++) w->keep ^= w->kernels->read(w->memory, w->words);
        amount += a ? 2.0 * GEMM_M * GEMM_N * GEMM_K : (double)w->words * 8 * (double)passes;
    } while (clock_mono_ns() < end);
    double on_core_s = (double)(thread_cpu_ns() - begin) * 1e-9;
    w->amount_per_s = amount / on_core_s;
    w->cpu_share = on_core_s / ((double)(clock_mono_ns() - from) * 1e-9);
    if (a) w->keep = (uint64_t)fabsf(a[na + nb]);
    free(a);
    return NULL;
}

/* The best two rounds of a measurement. A peak is a maximum; a second round with almost the same rate
 * confirms it. */
struct best {
    double first, second, cpu_share;
};

static double spread_of(const struct best *b) { return b->second > 0 ? 1 - b->second / b->first : 1; }

static void add_round(struct best *b, double rate, double cpu_share) {
    b->second = rate > b->first ? b->first : fmax(b->second, rate);
    b->first = fmax(b->first, rate);
    b->cpu_share = fmax(b->cpu_share, cpu_share);
}

static void run_threads(struct worker *workers, unsigned n, struct best *best) {
    pthread_t threads[MAX_THREADS];
    double sum = 0, share = 0;
    unsigned started = 0;
    for (; started < n; started++)
        if (pthread_create(&threads[started], NULL, measure_thread, &workers[started]) != 0) break;
    for (unsigned i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        sum += workers[i].amount_per_s;
        share += workers[i].cpu_share / started;
    }
    if (started) add_round(best, sum, share);
}

bool cpu_peak_is_stable(const struct cpu_peak *p) {
    return p->spread <= STABLE_SPREAD && p->cpu_share >= STABLE_SHARE;
}

static void read_round(struct worker *workers, unsigned threads, const uint64_t *memory, size_t bytes,
                       double seconds, struct best *best) {
    size_t words = bytes / 8 / threads / 64 * 64;
    for (unsigned i = 0; i < threads; i++) {
        workers[i].memory = memory + i * words;
        workers[i].words = words;
        workers[i].seconds = seconds;
    }
    if (words) run_threads(workers, threads, best);
}

/* Stores the bandwidth of each size. A size is named DRAM if it is not faster than DRAM_LIKE allows,
 * otherwise after the cache that it fits into, or "cache" if that is unknown. */
static void set_levels(struct cpu_peak *out, const struct best *reads) {
    double caches[CPU_CACHE_LEVELS], dram = reads[SWEEP_SIZES - 1].first;
    cpu_caches_read(CPU_CACHES_SYSFS, caches);
    for (size_t i = 0; i < SWEEP_SIZES; i++) {
        struct llm_level l = { .bytes = (double)(SWEEP_LEAST << i), .bytes_per_s = reads[i].first };
        bool is_dram = i == SWEEP_SIZES - 1 || l.bytes_per_s < DRAM_LIKE * dram;
        if (!(l.bytes_per_s > 0)) continue;
        const char *name = is_dram ? "DRAM" : cpu_caches_level(caches, l.bytes);
        snprintf(l.name, sizeof l.name, "%s",
                 *name && strcmp(name, "DRAM") != 0 ? name
                 : is_dram                          ? "DRAM"
                                                    : "cache");
        out->levels.v[out->levels.n++] = l;
    }
    llm_levels_settle(&out->levels);
    out->bytes_per_s = dram;
}

static void product_round(struct worker *workers, unsigned threads, struct worker as, struct best *best) {
    for (unsigned i = 0; i < threads; i++) workers[i] = as;
    run_threads(workers, threads, best);
}

/* Runs at least MIN_ROUNDS rounds, and more until the result is stable, at most MAX_ROUNDS. */
static void measure_rounds(struct cpu_peak *out, struct worker *workers, const uint64_t *memory,
                           double seconds) {
    struct best flops = { 0 }, bf16_flops = { 0 }, reads[SWEEP_SIZES] = { { 0 } };
    const struct best *bytes = &reads[SWEEP_SIZES - 1];
    const struct cpu_kernels *kn = cpu_kernels_pick();
    const struct cpu_bf16 *bf16 = cpu_bf16_pick();
    do {
        product_round(workers, out->threads,
                      (struct worker){ .kernels = kn, .seconds = seconds / MIN_ROUNDS }, &flops);
        if (bf16)
            product_round(workers, out->threads,
                          (struct worker){ .kernels = kn, .bf16 = bf16, .seconds = seconds / MIN_ROUNDS },
                          &bf16_flops);
        for (size_t i = 0; i < SWEEP_SIZES; i++)
            read_round(workers, out->threads, memory, SWEEP_LEAST << i,
                       (i == SWEEP_SIZES - 1 ? seconds : CACHE_SECONDS) / MIN_ROUNDS, &reads[i]);
        out->spread = fmax(spread_of(&flops), spread_of(bytes));
        out->cpu_share = fmin(flops.cpu_share, bytes->cpu_share);
        if (bf16) out->spread = fmax(out->spread, spread_of(&bf16_flops));
    } while (++out->rounds < MIN_ROUNDS || (!cpu_peak_is_stable(out) && out->rounds < MAX_ROUNDS));
    out->flops_per_s = flops.first;
    set_levels(out, reads);
    snprintf(out->kernel, sizeof out->kernel, "%s", kn->name);
    out->bf16_flops_per_s = bf16_flops.first;
    snprintf(out->bf16_kernel, sizeof out->bf16_kernel, "%s", bf16 ? bf16->name : "");
}

/* Measures in this process, without the cache file. `seconds`: duration of MIN_ROUNDS rounds of the matrix
 * product, and of the largest read. */
static int cpu_peak_measure(struct cpu_peak *out, double seconds, struct err *err) {
    static struct worker workers[MAX_THREADS];
    uint64_t *memory = mmap(NULL, SWEEP_MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return err_set(err, "measuring memory bandwidth: %s", strerror(errno));
    memset(memory, 1, SWEEP_MOST);
    *out =
        (struct cpu_peak){ .threads = MIN(cpu_usable(), MAX_THREADS), .measured_wall_ns = clock_wall_ns() };
    cpu_name(out->cpu, sizeof out->cpu);
    measure_rounds(out, workers, memory, seconds);
    munmap(memory, SWEEP_MOST);
    if (!(out->flops_per_s > 0 && out->bytes_per_s > 0))
        return err_set(err, "measuring the CPU: cannot start a thread");
    return 0;
}

/* Measures in a child process, so that the memory and threads do not stay in this process. */
static int measure_apart(struct cpu_peak *out, struct err *err) {
    int fds[2];
    if (pipe(fds) < 0) return err_set(err, "measuring the CPU: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        struct err ignored;
        bool ok = cpu_peak_measure(out, MEASURE_SECONDS, &ignored) == 0 &&
                  write(fds[1], out, sizeof *out) == sizeof *out;
        _exit(ok ? 0 : 1);
    }
    close(fds[1]);
    ssize_t n = pid < 0 ? -1 : read(fds[0], out, sizeof *out);
    close(fds[0]);
    int status = 1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (n != sizeof *out || status != 0) return err_set(err, "measuring the CPU's peaks failed");
    return 0;
}

/* ---- Cache file: {"cpus": [{...}, ...]}, one entry per CPU model and number of cores. Entries of older
 * versions have no "levels", and no "bf16_kernel" on CPUs with such instructions: these are measured
 * again. */

char *cpu_peak_cache_path(void) { return peak_cache_path("cpu-peak.json"); }

static bool is_row_of(const json_t *row, const char *cpu, unsigned threads) {
    const char *name = json_string_value(json_object_get(row, "cpu"));
    return name && strcmp(name, cpu) == 0 &&
           json_integer_value(json_object_get(row, "threads")) == (json_int_t)threads;
}

static bool same_cpu(const json_t *old, const json_t *row) {
    return is_row_of(old, json_string_value(json_object_get(row, "cpu")),
                     (unsigned)json_integer_value(json_object_get(row, "threads")));
}

/* Leaves `out` empty if a row is not valid. */
static void read_levels(const json_t *rows, struct llm_levels *out) {
    size_t n = json_array_size(rows);
    *out = (struct llm_levels){ 0 };
    for (size_t i = 0; i < n && n <= LLM_LEVELS_MAX; i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name = json_string_value(json_object_get(row, "level"));
        struct llm_level l = { .bytes = json_number_value(json_object_get(row, "bytes")),
                               .bytes_per_s = json_number_value(json_object_get(row, "bytes_per_s")) };
        if (!name || !(l.bytes_per_s > 0) || !(l.bytes > (i ? out->v[i - 1].bytes : 0))) {
            out->n = 0;
            return;
        }
        snprintf(l.name, sizeof l.name, "%.7s", name);
        out->v[out->n++] = l;
    }
}

static json_t *levels_json(const struct llm_levels *levels) {
    json_t *rows = json_array();
    for (size_t i = 0; i < levels->n; i++)
        json_array_append_new(rows, json_pack("{s:s, s:f, s:f}", "level", levels->v[i].name, "bytes",
                                              levels->v[i].bytes, "bytes_per_s", levels->v[i].bytes_per_s));
    return rows;
}

/* Returns false if the peak of bf16 numbers is missing, or was measured with other instructions. */
static bool read_bf16(const json_t *row, struct cpu_peak *out) {
    const struct cpu_bf16 *bf16 = cpu_bf16_pick();
    const char *kernel = json_string_value(json_object_get(row, "bf16_kernel"));
    double rate = json_number_value(json_object_get(row, "bf16_flops_per_s"));
    if (!bf16) return true;
    if (!kernel || strcmp(kernel, bf16->name) != 0 || !(rate > 0)) return false;
    out->bf16_flops_per_s = rate;
    snprintf(out->bf16_kernel, sizeof out->bf16_kernel, "%s", kernel);
    return true;
}

static bool from_cache(const char *path, struct cpu_peak *out) {
    json_t *root = peak_cache_load(path), *row;
    const json_t *rows = json_object_get(root, "cpus");
    size_t i;
    bool found = false;
    json_array_foreach(rows, i, row) {
        double f = json_number_value(json_object_get(row, "flops_per_s"));
        double b = json_number_value(json_object_get(row, "bytes_per_s"));
        if (!is_row_of(row, out->cpu, out->threads) || !(f > 0) || !(b > 0)) continue;
        if (!read_bf16(row, out)) continue;
        const char *kernel = json_string_value(json_object_get(row, "kernel"));
        out->flops_per_s = f;
        out->bytes_per_s = b;
        out->measured_wall_ns = (uint64_t)json_integer_value(json_object_get(row, "measured_wall_ns"));
        snprintf(out->kernel, sizeof out->kernel, "%s", kernel ? kernel : "");
        read_levels(json_object_get(row, "levels"), &out->levels);
        found = out->cached = out->kept = true;
    }
    json_decref(root);
    return found;
}

bool cpu_peak_keep(const char *path, const struct cpu_peak *p) {
    if (!path || !cpu_peak_is_stable(p)) return false;
    json_t *row =
        json_pack("{s:s, s:i, s:f, s:f, s:s, s:I, s:o}", "cpu", p->cpu, "threads", (int)p->threads,
                  "flops_per_s", p->flops_per_s, "bytes_per_s", p->bytes_per_s, "kernel", p->kernel,
                  "measured_wall_ns", (json_int_t)p->measured_wall_ns, "levels", levels_json(&p->levels));
    if (p->bf16_flops_per_s > 0) {
        json_object_set_new(row, "bf16_flops_per_s", json_real(p->bf16_flops_per_s));
        json_object_set_new(row, "bf16_kernel", json_string(p->bf16_kernel));
    }
    return peak_cache_replace(path, "cpus", row, same_cpu);
}

bool cpu_peak_cached(struct cpu_peak *out) {
    char *path = cpu_peak_cache_path();
    *out = (struct cpu_peak){ .threads = MIN(cpu_usable(), MAX_THREADS) };
    cpu_name(out->cpu, sizeof out->cpu);
    bool found = from_cache(path, out);
    free(path);
    return found;
}

int cpu_peak_get(struct cpu_peak *out, bool again, struct err *err) {
    if (cpu_peak_cached(out) && !again) return 0;
    log_info("measuring the peaks of this CPU");
    if (measure_apart(out, err) < 0) return -1;
    char *path = cpu_peak_cache_path();
    out->kept = cpu_peak_keep(path, out);
    free(path);
    return 0;
}
