#include "session/doctor.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/vec.h"
#include "session/cpu_peak.h"
#include "session/doctor_internal.h"
#include "session/inject.h"

#define LOW_DISK_BYTES 2e9

struct doctor_row *doctor_add(struct doctor *d, const char *check, enum doctor_status status,
                              const char *remedy, const char *fmt, ...) {
    struct strbuf s = STRBUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(&s, fmt, ap);
    va_end(ap);
    struct doctor_row row = { .check = check,
                              .status = status,
                              .found = strbuf_detach(&s),
                              .remedy = remedy && *remedy ? xstrdup(remedy) : NULL };
    vec_push(d, row);
    return &d->v[d->n - 1];
}

static void check_collector(struct doctor *d) {
    struct err err;
    char *path = inject_find_collector(&err);
    void *lib = path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    bool whole = lib && dlsym(lib, "InitializeInjection") && dlsym(lib, "InitializeInjectionNvtx2");
    if (whole)
        doctor_add(d, "collector", DOCTOR_OK, NULL, "%s", path)->needed = true;
    else
        doctor_add(d, "collector", DOCTOR_MISSING, path ? "rebuild it: make" : err.msg, "%s%s",
                   path ? path : "not found", path ? " cannot be loaded" : "")
            ->needed = true;
    doctor_add(d, "NVTX", whole ? DOCTOR_OK : DOCTOR_MISSING, whole ? NULL : "see collector",
               whole ? "recorded by the collector; needs no installed package" : "needs the collector");
    free(path);
}

/* Returns the version as 22703 for 2.27.3; 0: the loader finds no NCCL. */
static int nccl_version(void) {
    int version = 0, (*get_version)(int *);
    void *lib = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL),
         *f = lib ? dlsym(lib, "ncclGetVersion") : NULL;
    memcpy(&get_version, &f, sizeof f);
    return f && get_version(&version) == 0 ? version : 0;
}

/* NCCL 2.24 is the first version with a profiler interface that the collector implements. */
static void check_nccl(struct doctor *d) {
    const char *plugin = getenv("NCCL_PROFILER_PLUGIN");
    int version = nccl_version();
    if (plugin && *plugin)
        doctor_add(d, "NCCL plugin", DOCTOR_LIMITED,
                   "unset it: 'inferprof run' does not override it, so collectives are only kernels",
                   "NCCL_PROFILER_PLUGIN=%s", plugin);
    else if (!version)
        doctor_add(
            d, "NCCL plugin", DOCTOR_OK, NULL,
            "in the collector; libnccl.so.2 was not found (PyTorch ships its own; 2.24 or later is needed)");
    else if (version < 22400)
        doctor_add(d, "NCCL plugin", DOCTOR_LIMITED, "NCCL 2.24 or later records collectives",
                   "NCCL %d.%d is too old: collectives are only kernels", version / 10000,
                   version / 100 % 100);
    else
        doctor_add(d, "NCCL plugin", DOCTOR_OK, NULL, "in the collector, for NCCL %d.%d.%d", version / 10000,
                   version / 100 % 100, version % 100);
}

static void check_injection(struct doctor *d) {
    static const char *const names[] = { "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH" };
    for (size_t i = 0; i < 2; i++) {
        const char *v = getenv(names[i]);
        if (v && *v)
            doctor_add(d, "injection", DOCTOR_LIMITED,
                       "unset it: 'inferprof run' does not override it, so the collector is not loaded",
                       "%s=%s", names[i], v);
    }
}

static void check_cpu(struct doctor *d) {
    char name[128];
    struct strbuf features = STRBUF_INIT;
    cpu_name(name, sizeof name);
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) strbuf_addstr(&features, " avx2");
    if (__builtin_cpu_supports("fma")) strbuf_addstr(&features, " fma");
    if (__builtin_cpu_supports("avx512f")) strbuf_addstr(&features, " avx512f");
    if (__builtin_cpu_supports("avx512vnni")) strbuf_addstr(&features, " avx512vnni");
    bool slow = !__builtin_cpu_supports("avx2");
#else
    bool slow = false;
#endif
    doctor_add(d, "CPU", slow ? DOCTOR_LIMITED : DOCTOR_OK,
               slow ? "the native engine uses its portable kernels on this CPU" : NULL,
               "%s, %u usable cores,%s", name, cpu_usable(),
               features.len ? features.buf : " no vector extensions");
    strbuf_free(&features);
}

/* Adds the row of the cached CPU peaks. For each memory level it shows the bandwidth of the largest working
 * set. */
static void check_peaks(struct doctor *d) {
    struct cpu_peak p;
    struct strbuf line = STRBUF_INIT;
    char level[32], rate[32], bf16[32] = "";
    if (!cpu_peak_cached(&p)) {
        doctor_add(d, "CPU peaks", DOCTOR_LIMITED, "`inferprof calibrate` on an idle machine measures them",
                   "not measured yet");
        return;
    }
    for (size_t i = 0; i < p.levels.n; i++)
        if (i + 1 == p.levels.n || strcmp(p.levels.v[i].name, p.levels.v[i + 1].name) != 0)
            strbuf_addf(&line, "; %s: %s/s", llm_level_text(&p.levels.v[i], level, sizeof level),
                        units_bytes(p.levels.v[i].bytes_per_s, rate, sizeof rate));
    if (p.bf16_flops_per_s > 0) snprintf(bf16, sizeof bf16, ", %.1f (bf16)", p.bf16_flops_per_s * 1e-9);
    if (!p.levels.n) strbuf_addf(&line, "; DRAM: %s/s", units_bytes(p.bytes_per_s, rate, sizeof rate));
    doctor_add(d, "CPU peaks", p.levels.n ? DOCTOR_OK : DOCTOR_LIMITED,
               p.levels.n ? NULL : "`inferprof calibrate` measures the bandwidth of the caches too",
               "%.1f GFLOP/s (f32)%s%s", p.flops_per_s * 1e-9, bf16, line.buf);
    strbuf_free(&line);
}

static void check_disk(struct doctor *d, const char *dir) {
    struct statvfs fs;
    char amount[32];
    if (!file_is_dir(dir) || statvfs(dir, &fs) != 0) {
        doctor_add(d, "disk", DOCTOR_MISSING, "give an existing folder with --output", "%s is not a folder",
                   dir)
            ->needed = true;
        return;
    }
    double left = (double)fs.f_bavail * (double)fs.f_frsize;
    units_bytes(left, amount, sizeof amount);
    if (access(dir, W_OK) != 0)
        doctor_add(d, "disk", DOCTOR_MISSING, "write runs to another folder (run -o DIR)",
                   "%s is not writable", dir)
            ->needed = true;
    else if (left < LOW_DISK_BYTES)
        doctor_add(d, "disk", DOCTOR_LIMITED, "free disk space, or limit traces (run --max-size)",
                   "%s free in %s", amount, dir)
            ->needed = true;
    else
        doctor_add(d, "disk", DOCTOR_OK, NULL, "%s free in %s", amount, dir)->needed = true;
}

static void doctor_machine(struct doctor *d, const char *dir) {
    check_collector(d);
    check_injection(d);
    check_nccl(d);
    check_cpu(d);
    check_peaks(d);
    check_disk(d, dir);
}

void doctor_examine(struct doctor *d, const char *output_dir) {
    doctor_gpu(d);
    doctor_software(d);
    doctor_machine(d, output_dir);
}

bool doctor_native_works(const struct doctor *d) {
    for (size_t i = 0; i < d->n; i++)
        if (d->v[i].needed && d->v[i].status == DOCTOR_MISSING) return false;
    return true;
}

void doctor_free(struct doctor *d) {
    for (size_t i = 0; i < d->n; i++) {
        free(d->v[i].found);
        free(d->v[i].remedy);
    }
    free(d->v);
    *d = (struct doctor){ 0 };
}

const char *doctor_status_name(enum doctor_status s) {
    return s == DOCTOR_OK ? "OK" : s == DOCTOR_LIMITED ? "limited" : "missing";
}
