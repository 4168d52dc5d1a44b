#include "session/gpu_peak.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "driver/cuda.h"
#include "session/gpu_peak_ptx.h"
#include "session/peak_cache.h"

#define OLDEST_CUDA 11000 /* the oldest version with all functions that this file calls */
#define BLOCK_THREADS 256u
#define BLOCKS_PER_SM 6u /* all are resident: 6 x 256 threads x 40 registers fit in 65,536 per SM */
#define ROUNDS 5
#define PASS_BYTES 8e9 /* bytes per launch, read in milliseconds; the launch itself takes microseconds */

/* One GPU with all resources that must be released. */
struct bench {
    const struct driver *cuda;
    int device;
    bool retained;
    cu_context context;
    cu_module module;
    cu_function kernel;
    cu_event start, end;
    cu_ptr data, out;
    unsigned blocks;
    double round_bytes; /* per round of all threads */
};

static int check(const struct bench *b, int rc, const char *what, struct err *err) {
    return rc == CU_OK ? 0 : driver_error(b->cuda, rc, what, err);
}

/* Chooses the sizes: half of the L2 cache, and 4, 16 and 64 times the cache, in whole rounds. Sizes above
 * half of the free memory are left out. */
static int choose_sizes(const struct bench *b, struct gpu_peak *p, struct err *err) {
    static const double times_l2[GPU_PEAK_SIZES] = { 0.5, 4, 16, 64 };
    size_t free_bytes, total_bytes;
    if (check(b, b->cuda->mem_info(&free_bytes, &total_bytes), "cuMemGetInfo", err) < 0) return -1;
    for (size_t i = 0; i < COUNTOF(times_l2); i++) {
        double rounds = fmax(1, floor(times_l2[i] * p->l2_bytes / b->round_bytes));
        if (rounds * b->round_bytes <= (double)free_bytes / 2)
            p->reads[p->nreads++] = (struct gpu_read){ rounds * b->round_bytes, NAN };
    }
    if (!p->nreads || p->reads[p->nreads - 1].bytes <= p->l2_bytes)
        return err_set(err, "%zu MB of memory are free: too few to read past the L2 cache",
                       free_bytes / 1000000);
    return 0;
}

static int time_launch(struct bench *b, double bytes, uint32_t passes, float *ms, struct err *err) {
    const struct driver *cu = b->cuda;
    uint32_t rounds = (uint32_t)(bytes / b->round_bytes + 0.5);
    void *arguments[] = { &b->data, &b->out, &rounds, &passes };
    if (check(b, cu->event_record(b->start, NULL), "cuEventRecord", err) < 0) return -1;
    int rc = cu->launch_plain(b->kernel, b->blocks, 1, 1, BLOCK_THREADS, 1, 1, 0, NULL, arguments, NULL);
    if (check(b, rc, "cuLaunchKernel", err) < 0) return -1;
    if (check(b, cu->event_record(b->end, NULL), "cuEventRecord", err) < 0) return -1;
    if (check(b, cu->event_wait(b->end), "cuEventSynchronize", err) < 0) return -1;
    return check(b, cu->event_elapsed(ms, b->start, b->end), "cuEventElapsedTime", err);
}

/* Measures one size in several rounds. *spread: 1 - second best / best round. */
static int measure_size(struct bench *b, struct gpu_read *r, double *spread, struct err *err) {
    double second = NAN;
    uint32_t passes = (uint32_t)fmax(1, PASS_BYTES / r->bytes);
    for (int i = 0; i < ROUNDS; i++) {
        float ms = 0;
        if (time_launch(b, r->bytes, passes, &ms, err) < 0) return -1;
        if (!(ms > 0)) return err_set(err, "the GPU's clock measured no time for reading");
        double rate = r->bytes * passes / (ms * 1e-3);
        if (i > 0) second = fmax(second, fmin(rate, r->bytes_per_s));
        r->bytes_per_s = fmax(r->bytes_per_s, rate);
    }
    *spread = 1 - second / r->bytes_per_s;
    return 0;
}

static int describe(struct bench *b, struct gpu_peak *p, struct err *err) {
    int sms = 0, l2 = 0, major = 0;
    const struct driver *cu = b->cuda;
    if (check(b, cu->device_attribute(&sms, CU_ATTR_SMS, b->device), "cuDeviceGetAttribute", err) < 0 ||
        check(b, cu->device_attribute(&l2, CU_ATTR_L2_BYTES, b->device), "cuDeviceGetAttribute", err) < 0 ||
        check(b, cu->device_attribute(&major, CU_ATTR_MAJOR, b->device), "cuDeviceGetAttribute", err) < 0)
        return -1;
    if (major < 8) return err_set(err, "compute capability %d.x; the measurement needs 8.0 or later", major);
    if (sms <= 0 || l2 <= 0) return err_set(err, "the driver reports neither multiprocessors nor L2 cache");
    p->l2_bytes = l2;
    b->blocks = BLOCKS_PER_SM * (unsigned)sms;
    b->round_bytes = (double)b->blocks * BLOCK_THREADS * GPU_READ_BYTES_PER_ROUND;
    return 0;
}

static int prepare(struct bench *b, struct gpu_peak *p, struct err *err) {
    const struct driver *cu = b->cuda;
    if (describe(b, p, err) < 0) return -1;
    if (check(b, cu->context_retain(&b->context, b->device), "creating a context", err) < 0) return -1;
    b->retained = true;
    if (check(b, cu->context_set(b->context), "cuCtxSetCurrent", err) < 0) return -1;
    if (check(b, cu->module_load(&b->module, gpu_read_ptx), "compiling the kernel", err) < 0) return -1;
    if (check(b, cu->module_function(&b->kernel, b->module, GPU_READ_NAME), "cuModuleGetFunction", err) < 0)
        return -1;
    if (choose_sizes(b, p, err) < 0) return -1;
    size_t bytes = (size_t)p->reads[p->nreads - 1].bytes;
    if (check(b, cu->mem_alloc(&b->data, bytes), "allocating memory", err) < 0) return -1;
    if (check(b, cu->mem_alloc(&b->out, 16), "allocating memory", err) < 0) return -1;
    if (check(b, cu->set_bytes(b->data, 0, bytes), "cuMemsetD8", err) < 0) return -1;
    if (check(b, cu->event_create(&b->start, 0), "cuEventCreate", err) < 0) return -1;
    return check(b, cu->event_create(&b->end, 0), "cuEventCreate", err);
}

static void release(struct bench *b) {
    const struct driver *cu = b->cuda;
    if (b->start) cu->event_destroy(b->start);
    if (b->end) cu->event_destroy(b->end);
    if (b->data) cu->mem_free(b->data);
    if (b->out) cu->mem_free(b->out);
    if (b->module) cu->module_unload(b->module);
    if (b->retained) cu->context_release(b->device);
}

static void measure_device(const struct driver *cuda, int ordinal, struct gpu_peak *p) {
    struct bench b = { .cuda = cuda };
    struct err err;
    p->bytes_per_s = NAN;
    int rc = check(&b, cuda->device_get(&b.device, ordinal), "cuDeviceGet", &err);
    if (rc == 0)
        rc = check(&b, cuda->device_name(p->name, sizeof p->name, b.device), "cuDeviceGetName", &err);
    if (rc == 0) rc = prepare(&b, p, &err);
    for (size_t i = 0; rc == 0 && i < p->nreads; i++) rc = measure_size(&b, &p->reads[i], &p->spread, &err);
    release(&b);
    if (rc < 0) {
        p->nreads = 0;
        snprintf(p->problem, sizeof p->problem, "%.250s", err.msg);
        return;
    }
    p->bytes_per_s = p->reads[p->nreads - 1].bytes_per_s;
}

static int measure_all(struct gpu_peaks *out, struct err *err) {
    const struct driver *cuda = driver_load(err);
    int n = 0;
    if (!cuda || driver_require(cuda, OLDEST_CUDA, "the measurement", err) < 0) return -1;
    int rc = cuda->device_count(&n);
    if (rc != CU_OK) return driver_error(cuda, rc, "cuDeviceGetCount", err);
    if (n <= 0) return err_set(err, "the driver reports no GPU; check CUDA_VISIBLE_DEVICES");
    for (; out->n < (size_t)MIN(n, GPU_PEAK_DEVICES); out->n++)
        measure_device(cuda, (int)out->n, &out->v[out->n]);
    return 0;
}

/* The message that the child sends to its parent. */
struct answer {
    struct gpu_peaks peaks;
    struct err err;
    int rc;
};

static _Noreturn void measure_in_child(int fd) {
    static struct answer a; /* zeroed */
    unsetenv("CUDA_INJECTION64_PATH");
    a.rc = measure_all(&a.peaks, &a.err);
    const char *p = (const char *)&a;
    for (size_t left = sizeof a; left;) {
        ssize_t n = write(fd, p, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(1);
        p += n;
        left -= (size_t)n;
    }
    _exit(0);
}

static size_t read_all(int fd, void *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = read(fd, (char *)to + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    return done;
}

int gpu_peaks_measure(struct gpu_peaks *out, struct err *err) {
    static struct answer a;
    int fds[2], status = 0;
    *out = (struct gpu_peaks){ 0 };
    if (pipe(fds) < 0) return err_set(err, "measuring the GPU: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) measure_in_child(fds[1]);
    close(fds[1]);
    size_t n = pid < 0 ? 0 : read_all(fds[0], &a, sizeof a);
    close(fds[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (n != sizeof a)
        return err_set(err, "measuring the GPU failed: the measuring process ended with status %d", status);
    if (a.rc < 0) {
        *err = a.err;
        return -1;
    }
    *out = a.peaks;
    return 0;
}

/* ---- Cache file: {"gpus": [{"name", "l2_bytes", "reads": [{"bytes", "bytes_per_s"}]}, ...]} */

char *gpu_peak_cache_path(void) { return peak_cache_path("gpu-peak.json"); }

static bool same_gpu(const json_t *old, const json_t *row) {
    const char *a = json_string_value(json_object_get(old, "name")),
               *b = json_string_value(json_object_get(row, "name"));
    return a && b && strcmp(a, b) == 0;
}

static json_t *gpu_json(const struct gpu_peak *p) {
    json_t *reads = json_array();
    for (size_t i = 0; i < p->nreads; i++)
        json_array_append_new(reads, json_pack("{s:f, s:f}", "bytes", p->reads[i].bytes, "bytes_per_s",
                                               p->reads[i].bytes_per_s));
    return json_pack("{s:s, s:f, s:o}", "name", p->name, "l2_bytes", p->l2_bytes, "reads", reads);
}

static bool read_gpu(const json_t *row, struct gpu_peak *out) {
    const char *name = json_string_value(json_object_get(row, "name"));
    const json_t *reads = json_object_get(row, "reads");
    *out = (struct gpu_peak){ .l2_bytes = json_number_value(json_object_get(row, "l2_bytes")) };
    if (!name || !json_array_size(reads) || json_array_size(reads) > GPU_PEAK_SIZES) return false;
    snprintf(out->name, sizeof out->name, "%s", name);
    for (size_t i = 0; i < json_array_size(reads); i++) {
        const json_t *r = json_array_get(reads, i);
        out->reads[i] = (struct gpu_read){ json_number_value(json_object_get(r, "bytes")),
                                           json_number_value(json_object_get(r, "bytes_per_s")) };
        if (!(out->reads[i].bytes > 0) || !(out->reads[i].bytes_per_s > 0)) return false;
    }
    out->nreads = json_array_size(reads);
    out->bytes_per_s = out->reads[out->nreads - 1].bytes_per_s;
    return true;
}

bool gpu_peak_is_stable(const struct gpu_peak *p) { return p->nreads && p->spread <= 0.05; }

bool gpu_peaks_keep(const struct gpu_peaks *gpus) {
    char *path = gpu_peak_cache_path();
    bool done = path != NULL;
    for (size_t i = 0; i < gpus->n; i++)
        if (gpu_peak_is_stable(&gpus->v[i]))
            done &= peak_cache_replace(path, "gpus", gpu_json(&gpus->v[i]), same_gpu);
    free(path);
    return done;
}

void gpu_peaks_cached(struct gpu_peaks *out) {
    char *path = gpu_peak_cache_path();
    json_t *root = peak_cache_load(path), *row;
    size_t i;
    *out = (struct gpu_peaks){ 0 };
    json_array_foreach(json_object_get(root, "gpus"), i, row) {
        if (out->n < GPU_PEAK_DEVICES && read_gpu(row, &out->v[out->n])) out->n++;
    }
    json_decref(root);
    free(path);
}

double gpu_peak_cached(const char *name) {
    struct gpu_peaks gpus;
    gpu_peaks_cached(&gpus);
    for (size_t i = 0; i < gpus.n; i++)
        if (strcmp(gpus.v[i].name, name) == 0) return gpus.v[i].bytes_per_s;
    return NAN;
}
