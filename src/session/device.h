/* Chooses the device of a run from the request, the available devices and the devices that the engine
 * supports. */
#ifndef SESSION_DEVICE_H
#define SESSION_DEVICE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/strlist.h"
#include "conf/settings.h"
#include "session/nvml.h"

struct device_choice {
    bool cuda;
    int index;      /* index into the inventory; -1: CPU, or a MIG instance */
    char id[112];   /* for CUDA_VISIBLE_DEVICES: a UUID; "" on the CPU */
    char name[112]; /* "NVIDIA H200"; "cpu" */
    char label[32]; /* "cpu", "cuda:0", "MIG" */
    char note[256]; /* message for the user; "" if none */
};

/* `inventory` is NULL if there is no NVML; `why_none` then has the reason. Adds to `errors` if the device
 * cannot be used. */
void device_choose(const struct settings *s, const struct nvml_inventory *inventory, const char *why_none,
                   struct device_choice *out, struct strlist *errors);

/* Gives every device one name: "cpu", "cuda:N" or a MIG id. "auto", "CPU", "gpu" and UUIDs are other names of
 * these devices. `inventory` NULL: no GPUs. */
int device_name(const char *want, const char *engine, const struct nvml_inventory *inventory, char out[112],
                struct err *err);

#endif
