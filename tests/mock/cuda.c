/* A libcuda.so.1 without a driver: cuInit() loads the injected library as the real one does, and two devices answer
 * questions. */
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
EXPORT int cuDriverGetVersion(int *v);
int cuDriverGetVersion(int *v) {
    *v = 13000;
    return 0;
}
EXPORT int cuDeviceGetCount(int *n);
int cuDeviceGetCount(int *n) {
    *n = 2;
    return 0;
}
EXPORT int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
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
                           : 1000 + attribute;
    return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)141 << 30;
    return 0;
}
