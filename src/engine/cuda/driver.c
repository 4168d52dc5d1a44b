#include "engine/cuda/driver.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

static struct driver table;

static const struct {
    const char *symbol;
    size_t at;
} symbols[] = {
#define X(name, symbol, parameters) { #symbol, offsetof(struct driver, name) },
    CU_CALLS(X)
#undef X
};

static int old_driver(int version, struct err *err) {
    return err_set(err,
                   "CUDA: the NVIDIA driver supports CUDA %d.%d, but the engine needs %d.%d: install a newer "
                   "driver or use device=cpu",
                   version / 1000, version % 1000 / 10, DRIVER_OLDEST / 1000, DRIVER_OLDEST % 1000 / 10);
}

static int find_symbols(void *lib, struct err *err) {
    int version = 0;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *f = dlsym(lib, symbols[i].symbol);
        if (!f) {
            int (*get)(int *) = NULL;
            void *g = dlsym(lib, "cuDriverGetVersion");
            memcpy(&get, &g, sizeof get);
            if (get && get(&version) == CU_OK && version < DRIVER_OLDEST) return old_driver(version, err);
            return err_set(err,
                           "CUDA: libcuda.so.1 has no %s: install a newer NVIDIA driver or use device=cpu",
                           symbols[i].symbol);
        }
        memcpy((char *)&table + symbols[i].at, &f, sizeof f);
    }
    return 0;
}

static int start_driver(struct err *err) {
    const char *name = "an unknown error";
    int version = 0;
    if (table.driver_version(&version) == CU_OK && version < DRIVER_OLDEST) return old_driver(version, err);
    int rc = table.init(0);
    if (rc == CU_OK) return 0;
    table.error_name(rc, &name);
    return err_set(
        err, "CUDA: cuInit failed with %s: is a GPU visible (nvidia-smi)? Otherwise use device=cpu", name);
}

const struct driver *driver_load(struct err *err) {
    static bool loaded;
    if (loaded) return &table;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        err_set(err, "CUDA: libcuda.so.1 is not installed: install the NVIDIA driver or use device=cpu");
        return NULL;
    }
    if (find_symbols(lib, err) < 0 || start_driver(err) < 0) {
        dlclose(lib);
        return NULL;
    }
    loaded = true;
    return &table;
}
