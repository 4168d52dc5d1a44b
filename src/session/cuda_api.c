#include "session/cuda_api.h"

#include <dlfcn.h>
#include <string.h>

#include "base/util.h"

#define ROW(field, name) \
    { offsetof(struct cuda_api, field), name }
static const struct {
    size_t offset;
    const char *name;
} rows[] = {
    ROW(init, "cuInit"),
    ROW(device_count, "cuDeviceGetCount"),
    ROW(device, "cuDeviceGet"),
    ROW(device_name, "cuDeviceGetName"),
    ROW(device_attribute, "cuDeviceGetAttribute"),
    ROW(context_retain, "cuDevicePrimaryCtxRetain"),
    ROW(context_release, "cuDevicePrimaryCtxRelease_v2"),
    ROW(context_set, "cuCtxSetCurrent"),
    ROW(module_load, "cuModuleLoadData"),
    ROW(module_unload, "cuModuleUnload"),
    ROW(module_function, "cuModuleGetFunction"),
    ROW(memory_info, "cuMemGetInfo_v2"),
    ROW(memory_alloc, "cuMemAlloc_v2"),
    ROW(memory_free, "cuMemFree_v2"),
    ROW(memory_set, "cuMemsetD8_v2"),
    ROW(event_create, "cuEventCreate"),
    ROW(event_destroy, "cuEventDestroy_v2"),
    ROW(event_record, "cuEventRecord"),
    ROW(event_synchronize, "cuEventSynchronize"),
    ROW(event_elapsed, "cuEventElapsedTime"),
    ROW(launch, "cuLaunchKernel"),
    ROW(error_string, "cuGetErrorString"),
};

int cuda_fail(const struct cuda_api *api, int error, const char *what, struct err *err) {
    const char *text = NULL;
    if (api->error_string(error, &text) != CUDA_OK || !text) text = "unknown error";
    return err_set(err, "%s: %s (CUDA error %d)", what, text, error);
}

int cuda_api_open(struct cuda_api *api, struct err *err) {
    *api = (struct cuda_api){ .library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) };
    if (!api->library)
        return err_set(err,
                       "libcuda.so.1 not found: no NVIDIA driver, or this container has no access to it");
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        void *f = dlsym(api->library, rows[i].name);
        if (!f) return err_set(err, "libcuda.so.1 has no %s: update the NVIDIA driver", rows[i].name);
        memcpy((char *)api + rows[i].offset, &f, sizeof f);
    }
    int rc = api->init(0);
    return rc == CUDA_OK ? 0 : cuda_fail(api, rc, "cuInit", err);
}
