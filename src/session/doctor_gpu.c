#include <dlfcn.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/embed.h"
#include "base/file.h"
#include "base/units.h"
#include "base/util.h"
#include "driver/cuda.h"
#include "session/doctor_internal.h"
#include "session/nvml.h"

static const char *const folders[] = {
    "/usr/local/cuda/extras/CUPTI/lib64",
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/*/lib",
    "/usr/lib/*/python3*/site-packages/nvidia/*/lib",
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib",
    "/usr/lib/python3*/*-packages/nvidia/*/lib",
    "/opt/*/lib/python3*/site-packages/nvidia/*/lib",
};

static void *symbol_of(void *lib, const char *name) { return lib ? dlsym(lib, name) : NULL; }

static void check_driver(struct doctor *d, const struct nvml_inventory *gpus, const char *why_none) {
    if (gpus) {
        doctor_add(d, "driver", DOCTOR_OK, NULL, "NVIDIA %s", gpus->driver);
        doctor_add(d, "NVML", DOCTOR_OK, NULL, "%s", gpus->library);
    } else {
        bool module = file_exists("/proc/driver/nvidia/version");
        doctor_add(
            d, "driver", module ? DOCTOR_OK : DOCTOR_MISSING,
            module
                ? NULL
                : "GPU profiling needs the NVIDIA driver; the CPU engine and imported traces work without it",
            "%s", module ? "NVIDIA, loaded" : "no NVIDIA driver loaded");
        doctor_add(d, "NVML", DOCTOR_MISSING, why_none, "no power, clocks or energy");
    }
}

static void check_kernels(struct doctor *d) {
    if (embed_find("cuda/operators.fatbin"))
        doctor_add(d, "GPU kernels", DOCTOR_OK, NULL, "built in, for compute capability 8.0 and newer");
    else
        doctor_add(d, "GPU kernels", DOCTOR_MISSING,
                   "only needed by engine=native on a GPU: install the CUDA toolkit (nvcc) and build again",
                   "built without nvcc");
}

static void check_cuda(struct doctor *d) {
    int v = driver_version();
    if (v > 0)
        doctor_add(d, "CUDA", v >= 12000 ? DOCTOR_OK : DOCTOR_LIMITED,
                   v >= 12000 ? NULL : "recording kernels needs CUDA 12.0 or newer: update the driver",
                   "libcuda.so.1 supports CUDA %d.%d", v / 1000, v % 1000 / 10);
    else
        doctor_add(d, "CUDA", DOCTOR_MISSING, "part of the NVIDIA driver; start containers with --gpus all",
                   "libcuda.so.1 not found");
}

/* Tries to load CUPTI from a name or path; adds the row on success. */
static bool try_cupti(struct doctor *d, const char *path) {
    void *lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL), *f = symbol_of(lib, "cuptiGetVersion");
    int (*version)(uint32_t *);
    uint32_t v = 0;
    Dl_info info;
    memcpy(&version, &f, sizeof f);
    if (!f || version(&v) != 0) return false;
    const char *where = dladdr(f, &info) && info.dli_fname ? info.dli_fname : path;
    bool old = v < 18;
    doctor_add(d, "CUPTI", old ? DOCTOR_LIMITED : DOCTOR_OK,
               old ? "recording kernels needs CUDA 12.0 or newer: install a newer CUPTI" : NULL,
               "version %u, %s", v, where);
    return true;
}

static void check_cupti(struct doctor *d) {
    static const char *const sonames[] = { "libcupti.so.13", "libcupti.so.12" };
    for (size_t i = 0; i < COUNTOF(sonames); i++)
        if (try_cupti(d, sonames[i])) return;
    for (size_t i = 0; i < COUNTOF(folders); i++) {
        char *pattern = xasprintf("%s/libcupti.so.1[23]", folders[i]);
        glob_t found;
        bool ok = false;
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t k = found.gl_pathc; k > 0 && !ok; k--) ok = try_cupti(d, found.gl_pathv[k - 1]);
        globfree(&found);
        free(pattern);
        if (ok) return;
    }
    doctor_add(d, "CUPTI", DOCTOR_MISSING,
               "not needed for programs that ship CUPTI, like PyTorch; for others install the CUDA toolkit "
               "or the Python package nvidia-cuda-cupti",
               "libcupti.so.13 and .12 not found in the usual folders");
}

static void check_gpus(struct doctor *d, const struct nvml_inventory *gpus) {
    static const char *const mig[] = { "MIG unknown", "no MIG", "MIG off", "MIG on" };
    if (!gpus || gpus->ngpus == 0) {
        doctor_add(d, "GPU", DOCTOR_MISSING, "the CPU engine and imported traces work without it", "none");
        return;
    }
    for (size_t i = 0; i < gpus->ngpus; i++) {
        const struct nvml_gpu *g = &gpus->gpus[i];
        char memory[32] = "-";
        if (g->memory_bytes) units_bytes((double)g->memory_bytes, memory, sizeof memory);
        bool on = g->mig == NVML_MIG_ON;
        doctor_add(d, "GPU", on ? DOCTOR_LIMITED : DOCTOR_OK,
                   on ? "hardware counters and power cover the whole GPU, not one instance" : NULL,
                   "%zu: %s, %s, %s, %s", i, g->name, memory, mig[g->mig], g->uuid);
    }
}

static bool is_admin(void) {
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    unsigned long long caps = 0;
    while (f && fgets(line, sizeof line, f)) sscanf(line, "CapEff: %llx", &caps);
    if (f) fclose(f);
    return caps >> 21 & 1; /* CAP_SYS_ADMIN */
}

/* RmProfilingAdminOnly in /proc/driver/nvidia/params: 0 if all users may read counters. */
static void check_counters(struct doctor *d) {
    FILE *f = fopen("/proc/driver/nvidia/params", "re");
    char line[256];
    int restricted = -1;
    while (f && fgets(line, sizeof line, f)) sscanf(line, "RmProfilingAdminOnly: %d", &restricted);
    if (f) fclose(f);
    if (restricted < 0)
        doctor_add(d, "counters", DOCTOR_MISSING, "needs the NVIDIA driver",
                   "hardware counters cannot be checked");
    else if (restricted == 0)
        doctor_add(d, "counters", DOCTOR_OK, NULL, "available to all users");
    else if (is_admin())
        doctor_add(d, "counters", DOCTOR_OK, NULL, "restricted to administrators; this process is one");
    else
        doctor_add(d, "counters", DOCTOR_LIMITED,
                   "as root: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > "
                   "/etc/modprobe.d/nvidia-profiling.conf and "
                   "reboot; in a container: --cap-add=SYS_ADMIN. Recording kernels does not need them",
                   "restricted to administrators (ERR_NVGPUCTRPERM)");
}

void doctor_gpu(struct doctor *d) {
    struct nvml_inventory *gpus = xcalloc(1, sizeof *gpus);
    struct err err;
    bool have = nvml_inventory(gpus, &err) == 0;
    check_driver(d, have ? gpus : NULL, have ? "" : err.msg);
    check_cuda(d);
    check_kernels(d);
    check_cupti(d);
    check_gpus(d, have ? gpus : NULL);
    check_counters(d);
    free(gpus);
}
