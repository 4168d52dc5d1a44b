#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/abi.h"
#include "guests/guest.h"
#include "mock/mock.h"

static mock_work_fn work_fn;

static void load(void *f, const char *library, int flags, const char *name) {
    void *lib = dlopen(library, flags), *found = lib ? dlsym(lib, name) : NULL;
    memcpy(f, &found, sizeof found);
}

void guest_cuda(void) {
    int (*cu_init)(unsigned) = NULL;
    load(&cu_init, "libcuda.so.1", RTLD_NOW, "cuInit");
    if (!cu_init || cu_init(0) != 0) guest_fail("cuInit failed");
    load(&work_fn, "libcupti.so.13", RTLD_NOW | RTLD_NOLOAD, "mock_work");
}

void guest_kernels(int n) {
    for (int i = 0; work_fn && i < n; i++) work_fn(MOCK_KERNEL, "kernel", 7);
}

/* ---- NVTX: a table of functions that the injected library overwrites, at the first call */
static nvtx_function core[16], *slots[16];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int get_module(int module, nvtx_function ***table, unsigned *n) {
    *table = slots;
    *n = 16;
    return module == NVTX_MODULE_CORE;
}
static const void *get_table(uint32_t id) {
    static const struct nvtx_callbacks table = { sizeof table, get_module };
    return id == NVTX_TABLE_CALLBACKS ? &table : NULL;
}
static void nvtx_init(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    int (*inject)(nvtx_get_table) = NULL;
    for (int i = 0; i < 16; i++) slots[i] = &core[i];
    if (path) load(&inject, path, RTLD_LAZY, "InitializeInjectionNvtx2");
    if (inject) inject(get_table);
}

#define CORE(slot, type, ...)                            \
    do {                                                 \
        pthread_once(&once, nvtx_init);                  \
        if (core[slot]) ((type)core[slot])(__VA_ARGS__); \
    } while (0)

void guest_push(const char *name) { CORE(9, int (*)(const char *), name); }
void guest_pop(void) { CORE(11, int (*)(void)); }
void guest_mark_wide(const wchar_t *name) { CORE(3, void (*)(const wchar_t *), name); }
void guest_name_thread(unsigned tid, const char *name) {
    CORE(14, void (*)(uint32_t, const char *), tid, name);
}
void guest_name_category(unsigned category, const char *name) {
    CORE(12, void (*)(uint32_t, const char *), category, name);
}

void guest_fail(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    _Exit(1);
}
