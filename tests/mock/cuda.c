/* A libcuda.so.1 without a driver. cuInit() loads the injected library as the real one does. There are two
 * devices, a whole GPU and a MIG slice; CUDA_VISIBLE_DEVICES selects and orders them by number or UUID.
 * MOCK_CUDA_VERSION is the version that the driver supports, times 1000. It has too few functions for the
 * native engine. */
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
                           : 1000 + attribute;
    return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)141 << 30;
    return 0;
}
