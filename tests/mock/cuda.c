/* A libcuda.so.1 without a driver. cuInit() loads the injected library as the real one does. There are two
 * devices, a whole GPU and a MIG slice; CUDA_VISIBLE_DEVICES selects and orders them by number or UUID.
 * MOCK_CUDA_VERSION is the version that the driver supports, times 1000. It has too few functions for the
 * native engine.
 * MOCK_CUDA_FAILS=NAME: the function NAME of those that measuring needs fails. A kernel that reads "takes"
 * its bytes at 4 TB/s, or at 8 TB/s if they fit into the L2 cache. It checks that the reads are within the
 * buffer. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*init)(void) = NULL;
    void *f = lib ? dlsym(lib, "InitializeInjection") : NULL;
    (void)flags;
    memcpy(&init, &f, sizeof init);
    if (path && !lib) fprintf(stderr, "mock cuInit: %s\n", dlerror());
    if (init && init() == 0) fprintf(stderr, "mock cuInit: injection failed\n");
    return 0;
}
#define DEVICES 2
static const char *const uuids[DEVICES] = { "GPU-00010203-0405", "MIG-10111213-1415" }; /* prefixes */

/* -1: no such device */
static int device_named(const char *word, size_t len) {
    for (int i = 0; i < DEVICES; i++)
        if (len == 1 ? word[0] == '0' + i : strncmp(word, uuids[i], strlen(uuids[i])) == 0) return i;
    return -1;
}

/* The visible devices. As in the real driver, the first invalid entry ends the list. */
static int visible_devices(int *devices) {
    const char *p = getenv("CUDA_VISIBLE_DEVICES");
    int n = 0;
    if (!p) p = "0,1";
    while (*p && n < DEVICES) {
        size_t len = strcspn(p, ",");
        if ((devices[n] = device_named(p, len)) < 0) break;
        n++;
        p += len + (p[len] == ',');
    }
    return n;
}

EXPORT int cuDriverGetVersion(int *v);
int cuDriverGetVersion(int *v) {
    const char *version = getenv("MOCK_CUDA_VERSION");
    *v = version ? atoi(version) : 13000;
    return 0;
}
EXPORT int cuDeviceGetCount(int *n);
int cuDeviceGetCount(int *n) {
    int devices[DEVICES];
    *n = visible_devices(devices);
    return 0;
}
EXPORT int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal) {
    int devices[DEVICES];
    if (ordinal >= visible_devices(devices)) return 101;
    *device = devices[ordinal];
    return 0;
}
EXPORT int cuDeviceGetName(char *name, int cap, int device);
int cuDeviceGetName(char *name, int cap, int device) {
    snprintf(name, (size_t)cap, device == 0 ? "NVIDIA Mock 9000" : "NVIDIA Mock 9000 MIG 1g.10gb");
    return 0;
}
EXPORT int cuDeviceGetUuid_v2(unsigned char *id, int device);
int cuDeviceGetUuid_v2(unsigned char *id, int device) {
    for (int i = 0; i < 16; i++) id[i] = (unsigned char)(device * 16 + i);
    return 0;
}
EXPORT int cuDeviceGetAttribute(int *v, int attribute, int device);
int cuDeviceGetAttribute(int *v, int attribute, int device) {
    (void)device;
    *v = attribute == 75   ? 9
         : attribute == 76 ? 0
         : attribute == 16 ? 132
         : attribute == 10 ? 32
         : attribute == 38 ? 60 << 20
                           : 1000 + attribute;
    return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)141 << 30;
    return 0;
}

/* ---- measuring (session/gpu_peak.c) */

static uint64_t buffer_bytes; /* of the largest allocation */
static double busy_ms;        /* of the kernels that were launched */

static int fails(const char *name, int error) {
    const char *which = getenv("MOCK_CUDA_FAILS");
    return which && strcmp(which, name) == 0 ? error : 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &buffer_bytes;
    return fails("cuDevicePrimaryCtxRetain", device == 0 ? 2 : 0);
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device) { return device < 0; }
EXPORT int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context) { return context ? 0 : 201; }
EXPORT int cuModuleLoadData(void **module, const void *image);
int cuModuleLoadData(void **module, const void *image) {
    *module = &buffer_bytes;
    if (!strstr(image, ".target sm_80") || !strstr(image, ".entry inferprof_read(")) return 218;
    return fails("cuModuleLoadData", 222);
}
EXPORT int cuModuleUnload(void *module);
int cuModuleUnload(void *module) { return module ? 0 : 400; }
EXPORT int cuModuleGetFunction(void **function, void *module, const char *name);
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = module;
    return strcmp(name, "inferprof_read") == 0 ? 0 : 500;
}
EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    *total_bytes = (size_t)141 << 30;
    *free_bytes =
        fails("cuMemGetInfo_v2", 1) ? (size_t)20 << 20 : (size_t)100 << 30; /* fails: little is free */
    return 0;
}
EXPORT int cuMemAlloc_v2(uint64_t *pointer, size_t bytes);
int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
    *pointer = 0x10000;
    if (bytes > buffer_bytes) buffer_bytes = bytes;
    return fails("cuMemAlloc_v2", 2);
}
EXPORT int cuMemFree_v2(uint64_t pointer);
int cuMemFree_v2(uint64_t pointer) { return pointer ? 0 : 1; }
EXPORT int cuMemsetD8_v2(uint64_t pointer, unsigned char value, size_t bytes);
int cuMemsetD8_v2(uint64_t pointer, unsigned char value, size_t bytes) {
    return pointer && value == 0 && bytes <= buffer_bytes ? 0 : 1;
}
EXPORT int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof(double));
    return *event ? 0 : 2;
}
EXPORT int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event) {
    free(event);
    return 0;
}
EXPORT int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream) {
    (void)stream;
    *(double *)event = busy_ms;
    return 0;
}
EXPORT int cuEventSynchronize(void *event);
int cuEventSynchronize(void *event) {
    (void)event;
    return fails("cuEventSynchronize", 700);
}
EXPORT int cuEventElapsedTime(float *ms, void *start, void *end);
int cuEventElapsedTime(float *ms, void *start, void *end) {
    *ms = (float)(*(double *)end - *(double *)start);
    return 0;
}
EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared_bytes, void *stream, void **arguments, void **extra);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared_bytes, void *stream, void **arguments, void **extra) {
    uint64_t data = *(uint64_t *)arguments[0];
    uint32_t rounds = *(uint32_t *)arguments[2], passes = *(uint32_t *)arguments[3];
    double bytes = 64.0 * gx * bx * rounds, rate = bytes <= 60 << 20 ? 8e9 : 4e9; /* bytes per ms */
    (void)shared_bytes;
    (void)stream;
    (void)extra;
    if (!function || data != 0x10000 || gy != 1 || gz != 1 || by != 1 || bz != 1 || bx > 1024) return 1;
    if (!rounds || !passes || bytes > (double)buffer_bytes) return 700; /* reads past the buffer */
    busy_ms += bytes * passes / rate;
    return fails("cuLaunchKernel", 719);
}
EXPORT int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text) {
    *text = error == 2     ? "out of memory"
            : error == 222 ? "the provided PTX was compiled with an unsupported toolchain."
            : error == 700 ? "an illegal memory access was encountered"
                           : "mock error";
    return 0;
}
