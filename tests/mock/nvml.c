/* A libnvidia-ml.so.1 without a GPU: one device at 300 W with an energy counter, and a second device that
 * supports few queries. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
enum { NOT_SUPPORTED = 3, NO_DRIVER = 9 };

static unsigned long long energy_mj = 1000000;

EXPORT int nvmlInit_v2(void);
int nvmlInit_v2(void) { return getenv("MOCK_NVML_FAILS") ? NO_DRIVER : 0; }
EXPORT int nvmlShutdown(void);
int nvmlShutdown(void) { return 0; }
EXPORT const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code) { return code == NO_DRIVER ? "Driver Not Loaded" : "Unknown Error"; }
EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned cap);
int nvmlSystemGetDriverVersion(char *text, unsigned cap) {
    snprintf(text, cap, "580.00.mock");
    return 0;
}
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *v);
int nvmlSystemGetCudaDriverVersion_v2(int *v) {
    *v = 13000;
    return 0;
}
EXPORT int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetCount_v2(unsigned *n) {
    *n = 2;
    return 0;
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) {
    *device = (void *)(uintptr_t)(i + 1);
    return 0;
}
static int index_of(void *device) { return (int)(uintptr_t)device - 1; }
EXPORT int nvmlDeviceGetName(void *d, char *text, unsigned cap);
int nvmlDeviceGetName(void *d, char *text, unsigned cap) {
    (void)d;
    snprintf(text, cap, "NVIDIA Mock 9000");
    return 0;
}
EXPORT int nvmlDeviceGetUUID(void *d, char *text, unsigned cap);
int nvmlDeviceGetUUID(void *d, char *text, unsigned cap) {
    snprintf(text, cap, "GPU-%08x-0405-0607-0809-0a0b0c0d0e0f", 0x00010203 + index_of(d));
    return 0;
}
EXPORT int nvmlDeviceGetPowerUsage(void *d, unsigned *mw);
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) {
    *mw = 300000;
    return index_of(d) == 0 ? 0 : NOT_SUPPORTED;
}
EXPORT int nvmlDeviceGetClockInfo(void *d, int type, unsigned *mhz);
int nvmlDeviceGetClockInfo(void *d, int type, unsigned *mhz) {
    *mhz = type == 1 ? 1980 : 3201;
    return index_of(d) == 0 ? 0 : NOT_SUPPORTED;
}
EXPORT int nvmlDeviceGetTemperature(void *d, int type, unsigned *c);
int nvmlDeviceGetTemperature(void *d, int type, unsigned *c) {
    (void)d;
    (void)type;
    *c = 45;
    return 0;
}
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *bits);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *bits) {
    (void)d;
    *bits = 4;
    return 0;
}
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *mj);
int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *mj) {
    *mj = energy_mj += 30;
    return index_of(d) == 0 ? 0 : NOT_SUPPORTED;
}
EXPORT int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *pending);
int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *pending) {
    *now = *pending = (unsigned)index_of(d);
    return 0;
}
