/* The backends of the engine. The `device` of a load request selects a row of the table in backends.c. To
 * add a backend, add its folder and one row. */
#ifndef ENGINE_BACKENDS_H
#define ENGINE_BACKENDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/compute/threads.h"
#include "engine/ops/ops.h"

struct engine_backend {
    const char *name; /* "cpu", "cuda" */
    /* the backend can have several devices: "cuda:0", "cuda:1"; "cuda" means "cuda:0" */
    bool numbered;
    /* Opens device `index` (0 if not numbered); `threads` is borrowed until ops_close(). Returns NULL on
     * errors (see err). */
    struct ops *(*open)(struct threads *threads, int index, struct err *err);
};

/* The device that a load request selects. */
struct engine_device {
    const struct engine_backend *backend;
    int index;
    char label[32]; /* "cpu", "cuda:0" */
};

/* Returns the name of the default device: the first GPU, or the CPU if there is no usable GPU. Used for
 * `device` NULL or "auto". */
const char *engine_default_device(void);
int engine_device_find(const char *device, struct engine_device *out, struct err *err);

#endif
