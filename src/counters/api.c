#include "counters/api.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define OLDEST_CUDA 12000

/* Searches the toolkit's folders last: a library path set by the user, or a Python package, takes
 * precedence. */
static void *open_cupti(struct pm_api *api) {
    static const char *const names[] = {
        "libcupti.so.13",
        "libcupti.so.12",
        "libcupti.so",
        "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
        "/usr/local/cuda/lib64/libcupti.so",
    };
    const char *chosen = getenv("INFERPROF_CUPTI");
    void *lib = chosen && *chosen ? dlopen(chosen, RTLD_NOW | RTLD_GLOBAL) : NULL;
    for (size_t i = 0; !lib && i < COUNTOF(names); i++) lib = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    struct link_map *map = NULL;
    if (lib && dlinfo(lib, RTLD_DI_LINKMAP, &map) == 0)
        snprintf(api->cupti_path, sizeof api->cupti_path, "%s", map->l_name);
    return lib;
}

int pm_api_open(struct pm_api *api, struct err *err) {
    memset(api, 0, sizeof *api);
    api->driver = driver_load(err);
    if (!api->driver || driver_require(api->driver, OLDEST_CUDA, "PM sampling", err) < 0) return -1;
    void *lib = open_cupti(api);
    if (!lib)
        return err_set(err, "libcupti.so was not found: install the CUDA toolkit's CUPTI, or set "
                            "INFERPROF_CUPTI to its path");
    const char *missing = NULL;
#define X(symbol, field, block)                  \
    *(void **)&api->field = dlsym(lib, #symbol); \
    if (!api->field) missing = #symbol;
    PM_CALLS(X)
#undef X
    *(void **)&api->error_string = dlsym(lib, "cuptiGetResultString");
    if (missing)
        return err_set(err, "%s has no %s: PM sampling needs CUPTI of CUDA 12.6 or later", api->cupti_path,
                       missing);
    struct pm_no_args nothing = PM_SIZED(struct pm_no_args);
    int rc = api->initialize(&nothing);
    return rc == PM_OK ? 0 : pm_api_error(api, rc, "starting the profiler", err);
}

static const char *remedy(int code) {
    switch (code) {
    case PM_NO_PRIVILEGES:
        return "only administrators may read counters (ERR_NVGPUCTRPERM): run as root, or load the nvidia "
               "module with NVreg_RestrictProfilingToAdminUsers=0";
    case PM_HARDWARE_BUSY:
        return "another tool uses the counters (DCGM, Nsight, a second inferprof): stop it; for DCGM: dcgmi "
               "profile --pause";
    case PM_VIRTUALIZED:
    case PM_VIRTUALIZED_PRIVILEGES: return "this is a virtual GPU: the host must enable profiling for it";
    case PM_CONFIDENTIAL: return "counters cannot be read while confidential computing is enabled";
    case PM_MIG: return "counters of a MIG slice cannot be sampled: use the whole GPU";
    case PM_NOT_SUPPORTED:
        return "this GPU or driver does not support PM sampling (requires Turing or later)";
    default: return NULL;
    }
}

int pm_api_error(const struct pm_api *api, int code, const char *doing, struct err *err) {
    const char *name = NULL, *help = remedy(code);
    if (!api->error_string || api->error_string(code, &name) != PM_OK) name = NULL;
    return err_set(err, "%s: %s (CUPTI error %d)%s%s", doing, name ? name : "failed", code, help ? "; " : "",
                   help ? help : "");
}
