#include "driver/cuda.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

static struct driver table;

static const struct {
    const char *symbol;
    size_t at;
} symbols[] = {
#define X(name, symbol, parameters) { #symbol, offsetof(struct driver, name) },
    CU_CALLS(X)
#undef X
};

/* Fills the table. RTLD_GLOBAL makes the symbols visible as if the program were linked with the library. */
static bool find_symbols(void) {
    static void *library;
    if (library) return true;
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    for (size_t i = 0; library && i < COUNTOF(symbols); i++) {
        void *f = dlsym(library, symbols[i].symbol);
        memcpy((char *)&table + symbols[i].at, &f, sizeof f);
    }
    if (table.driver_version && table.driver_version(&table.version) != CU_OK) table.version = 0;
    return library;
}

int driver_version(void) { return find_symbols() ? table.version : 0; }

const struct driver *driver_load(struct err *err) {
    static bool ready;
    if (ready) return &table;
    if (!find_symbols())
        err_set(err, "libcuda.so.1 not found: no NVIDIA driver, or this container has no access to it");
    else if (!table.version || !table.init || !table.device_count)
        err_set(err, "libcuda.so.1 is not a usable NVIDIA driver: install the driver again");
    else {
        int rc = table.init(0);
        if (rc != CU_OK) driver_error(&table, rc, "cuInit (is a GPU visible? see nvidia-smi)", err);
        ready = rc == CU_OK;
    }
    return ready ? &table : NULL;
}

int driver_require(const struct driver *d, int version, const char *who, struct err *err) {
    if (d->version >= version) return 0;
    return err_set(err, "the NVIDIA driver supports CUDA %d.%d, but %s needs %d.%d: install a newer driver",
                   d->version / 1000, d->version % 1000 / 10, who, version / 1000, version % 1000 / 10);
}

const char *driver_missing(const struct driver *d) {
    for (size_t i = 0; i < COUNTOF(symbols); i++) {
        void *f;
        memcpy(&f, (const char *)d + symbols[i].at, sizeof f);
        if (!f) return symbols[i].symbol;
    }
    return NULL;
}

int driver_error(const struct driver *d, int error, const char *what, struct err *err) {
    const char *text = NULL;
    if (!d->error_text || d->error_text(error, &text) != CU_OK || !text) text = "unknown error";
    return err_set(err, "%s: %s (CUDA error %d)", what, text, error);
}

void driver_uuid(const struct driver *d, int device, char text[DRIVER_UUID_MAX]) {
    unsigned char id[16];
    char name[128] = "";
    *text = '\0';
    if (!d->device_uuid || d->device_uuid(id, device) != CU_OK) return;
    if (d->device_name) d->device_name(name, sizeof name, device);
    int n = snprintf(text, DRIVER_UUID_MAX, "%s", strstr(name, " MIG ") ? "MIG-" : "GPU-");
    for (int i = 0; i < 16; i++)
        n += snprintf(text + n, DRIVER_UUID_MAX - (size_t)n, "%s%02x",
                      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
}
