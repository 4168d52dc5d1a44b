#include "collect/cupti.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "collect/layout.h"
#include "collect/output.h"

struct cupti_api cupti;

#define ROW(field, name, needed) \
    { offsetof(struct cupti_api, field), name, needed }
static const struct {
    size_t offset;
    const char *name;
    bool needed;
} rows[] = {
    ROW(get_version, "cuptiGetVersion", true),
    ROW(result_string, "cuptiGetResultString", true),
    ROW(timestamp, "cuptiGetTimestamp", true),
    ROW(subscribe, "cuptiSubscribe", true),
    ROW(unsubscribe, "cuptiUnsubscribe", true),
    ROW(enable_callback, "cuptiEnableCallback", true),
    ROW(register_buffers, "cuptiActivityRegisterCallbacks", true),
    ROW(enable, "cuptiActivityEnable", true),
    ROW(disable, "cuptiActivityDisable", true),
    ROW(next_record, "cuptiActivityGetNextRecord", true),
    ROW(dropped, "cuptiActivityGetNumDroppedRecords", true),
    ROW(flush_all, "cuptiActivityFlushAll", true),
    ROW(finalize, "cuptiFinalize", false),
    ROW(stream_id, "cuptiGetStreamIdEx", false),
    ROW(graph_id, "cuptiGetGraphExecId", false),
    ROW(device_id, "cuptiGetDeviceId", false),
};

static const char *const sonames[] = { "libcupti.so.13", "libcupti.so.12" }; /* newest first */

static int find_runtime_major(struct dl_phdr_info *info, size_t size, void *major) {
    (void)size;
    const char *at = info->dlpi_name ? strstr(info->dlpi_name, "libcudart.so.") : NULL;
    if (at) *(int *)major = atoi(at + sizeof "libcudart.so." - 1);
    return 0;
}

/* The library search path may lack these folders. */
static void *open_in_folders(const char *soname) {
    static const char *const folders[] = { "/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64",
                                           "/usr/local/cuda/targets/x86_64-linux/lib",
                                           "/usr/local/cuda/targets/sbsa-linux/lib",
                                           "/usr/lib/x86_64-linux-gnu" };
    const char *home = getenv("CUDA_HOME");
    char path[PATH_MAX];
    void *lib = NULL;
    if (home && *home) {
        snprintf(path, sizeof path, "%s/extras/CUPTI/lib64/%s", home, soname);
        lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    }
    for (size_t i = 0; !lib && i < COUNTOF(folders); i++) {
        snprintf(path, sizeof path, "%s/%s", folders[i], soname);
        lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    }
    return lib;
}

static void *open_library(void) {
    void *lib = NULL;
    int major = 0;
    if (settings.cupti[0]) {
        lib = dlopen(settings.cupti, RTLD_LAZY | RTLD_LOCAL);
        if (!lib) report_problem("INFERPROF_COLLECT_CUPTI: %s", dlerror());
        return lib;
    }
    for (size_t i = 0; !lib && i < COUNTOF(sonames); i++) lib = dlopen(sonames[i], RTLD_LAZY | RTLD_NOLOAD);
    if (lib) return lib;
    dl_iterate_phdr(find_runtime_major, &major);
    for (size_t i = 0; !lib && i < COUNTOF(sonames); i++) {
        if (major && atoi(strrchr(sonames[i], '.') + 1) != major)
            continue; /* must match the loaded runtime */
        lib = dlopen(sonames[i], RTLD_LAZY | RTLD_LOCAL);
        if (!lib) lib = open_in_folders(sonames[i]);
    }
    if (!lib)
        report_problem(
            "no kernels were recorded: libcupti.so%s%.0d was not found; install the CUDA toolkit's "
            "CUPTI (or the Python package nvidia-cuda-cupti), or set INFERPROF_COLLECT_CUPTI to "
            "the file",
            major ? "." : "", major);
    return lib;
}

static bool load_symbols(void) {
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        void *f = dlsym(cupti.library, rows[i].name);
        if (!f && rows[i].needed) {
            report_problem("no kernels were recorded: this libcupti lacks %s", rows[i].name);
            return false;
        }
        memcpy((char *)&cupti + rows[i].offset, &f, sizeof f);
    }
    return true;
}

bool cupti_load(void) {
    Dl_info info;
    cupti.library = open_library();
    if (!cupti.library || !load_symbols()) goto none;
    if (dladdr(dlsym(cupti.library, "cuptiGetVersion"), &info) && info.dli_fname)
        snprintf(cupti.path, sizeof cupti.path, "%s", info.dli_fname);
    if (cupti.get_version(&cupti.version) != CUPTI_OK || !layout_find(cupti.version)) {
        report_problem("no kernels were recorded: %s is version %u, older than CUDA 12.0; use a newer CUPTI",
                       cupti.path, cupti.version);
        goto none;
    }
    return true;
none:
    cupti.library = NULL;
    return false;
}

const char *cupti_error(int code) {
    const char *text = NULL;
    if (!cupti.result_string || cupti.result_string(code, &text) != CUPTI_OK || !text)
        return "an unknown error";
    return text;
}
