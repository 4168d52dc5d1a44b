#include "engine/backends.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/util.h"
#include "engine/cpu/cpu.h"
#include "engine/cuda/cuda.h"

enum { MAX_INDEX = 1023 };

static struct ops *open_cpu(struct threads *threads, int index, struct err *err) {
    (void)index;
    (void)err;
    return cpu_open(threads, NULL);
}

/* The first row is the default if there is no usable GPU. */
static const struct engine_backend backends[] = {
    { .name = "cpu", .open = open_cpu },
    { .name = "cuda", .numbered = true, .open = cuda_open },
};

static int unknown_device(const char *device, struct err *err) {
    struct strbuf have = STRBUF_INIT;
    for (size_t i = 0; i < COUNTOF(backends); i++)
        strbuf_addf(&have, "%s%s%s", i ? ", " : "", backends[i].name, backends[i].numbered ? ":N" : "");
    err_set(err, "device '%.64s': the native engine runs on %s", device, have.buf);
    strbuf_free(&have);
    return -1;
}

/* Returns N for "name:N", 0 for "name", or -1 if `device` is not a device of this backend. */
static int device_index(const struct engine_backend *b, const char *device) {
    size_t n = strlen(b->name);
    char *end;
    if (strncmp(device, b->name, n) != 0) return -1;
    if (!device[n]) return 0;
    if (!b->numbered || device[n] != ':' || !isdigit((unsigned char)device[n + 1])) return -1;
    unsigned long index = strtoul(device + n + 1, &end, 10);
    return *end || index > MAX_INDEX ? -1 : (int)index;
}

int engine_device_find(const char *device, struct engine_device *out, struct err *err) {
    bool any = !device || strcmp(device, "auto") == 0;
    if (any) device = engine_default_device();
    for (size_t i = 0; i < COUNTOF(backends); i++) {
        const struct engine_backend *b = &backends[i];
        int index = device_index(b, device);
        if (index < 0) continue;
        *out = (struct engine_device){ .backend = b, .index = index };
        snprintf(out->label, sizeof out->label, b->numbered ? "%s:%d" : "%s", b->name, index);
        return 0;
    }
    return unknown_device(device, err);
}

const char *engine_default_device(void) {
    struct err none;
    return cuda_available(&none) ? "cuda:0" : backends[0].name;
}
