/* Which device a run uses: what was asked for, held against what is there and what the engine can do. */
#ifndef SESSION_DEVICE_H
#define SESSION_DEVICE_H

#include <stdbool.h>

#include "base/strlist.h"
#include "conf/settings.h"
#include "session/nvml.h"

struct device_choice {
    bool cuda;
    int index;      /* of the inventory; -1: CPU, or a MIG instance */
    char id[112];   /* for CUDA_VISIBLE_DEVICES: a UUID; "" on the CPU */
    char name[112]; /* "NVIDIA H200"; "cpu" */
    char label[32]; /* "cpu", "cuda:0" */
    char note[256]; /* something the user should know; "" */
};

/* `inventory` NULL: no NVML here, `why_none` says why. Adds to problems what stands against it. */
void device_choose(const struct settings *s, const struct nvml_inventory *inventory, const char *why_none,
                   struct device_choice *out, struct strlist *problems);

#endif
