#include "session/nvml_api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/util.h"

#define ROW(field, needed, ...)                                   \
    {                                                             \
        offsetof(struct nvml_api, field), needed, { __VA_ARGS__ } \
    }
static const struct {
    size_t offset;
    bool needed;
    const char *names[2]; /* aliases; the first one found is used */
} rows[] = {
    ROW(init, true, "nvmlInit_v2"),
    ROW(shutdown, true, "nvmlShutdown"),
    ROW(error_string, true, "nvmlErrorString"),
    ROW(driver_version, true, "nvmlSystemGetDriverVersion"),
    ROW(count, true, "nvmlDeviceGetCount_v2"),
    ROW(handle, true, "nvmlDeviceGetHandleByIndex_v2"),
    ROW(cuda_version, false, "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"),
    ROW(name, false, "nvmlDeviceGetName"),
    ROW(uuid, false, "nvmlDeviceGetUUID"),
    ROW(power, false, "nvmlDeviceGetPowerUsage"),
    ROW(clock, false, "nvmlDeviceGetClockInfo"),
    ROW(max_clock, false, "nvmlDeviceGetMaxClockInfo"),
    ROW(temperature, false, "nvmlDeviceGetTemperature"),
    ROW(throttle, false, "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons"),
    ROW(energy, false, "nvmlDeviceGetTotalEnergyConsumption"),
    ROW(memory, false, "nvmlDeviceGetMemoryInfo"),
    ROW(mig, false, "nvmlDeviceGetMigMode"),
    ROW(power_limit, false, "nvmlDeviceGetEnforcedPowerLimit"),
    ROW(capability, false, "nvmlDeviceGetCudaComputeCapability"),
};

static int fill_table(struct nvml_api *api, struct err *err) {
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        void *f = dlsym(api->library, rows[i].names[0]);
        if (!f && rows[i].names[1]) f = dlsym(api->library, rows[i].names[1]);
        if (!f && rows[i].needed)
            return err_set(err, "libnvidia-ml.so.1 has no %s; the driver is too old", rows[i].names[0]);
        memcpy((char *)api + rows[i].offset, &f, sizeof f);
    }
    return 0;
}

int nvml_api_open(struct nvml_api *api, struct err *err) {
    *api = (struct nvml_api){ .library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL) };
    if (!api->library)
        return err_set(err, "no NVML (libnvidia-ml.so.1 not found): no power, clocks or energy; it is part "
                            "of the NVIDIA driver");
    int rc = fill_table(api, err) < 0 ? -1 : api->init();
    if (rc == NVML_OK) return 0;
    if (rc > 0)
        err_set(err, "cannot initialise NVML: %s; is the NVIDIA driver loaded (nvidia-smi)?",
                api->error_string(rc));
    dlclose(api->library);
    api->library = NULL;
    return -1;
}

void nvml_api_close(struct nvml_api *api) {
    if (!api->library) return;
    api->shutdown();
    dlclose(api->library);
    api->library = NULL;
}
