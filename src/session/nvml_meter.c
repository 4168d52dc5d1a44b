#include "session/nvml_meter.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "session/nvml_api.h"

struct nvml_meter {
    struct nvml_api api;
    nvml_device device;
};

static bool find_device(struct nvml_meter *m, const char *uuid) {
    unsigned n = 0;
    char text[96];
    if (!m->api.uuid || m->api.count(&n) != NVML_OK) return false;
    for (unsigned i = 0; i < n; i++)
        if (m->api.handle(i, &m->device) == NVML_OK && m->api.uuid(m->device, text, sizeof text) == NVML_OK &&
            strcmp(text, uuid) == 0)
            return true;
    return false;
}

struct nvml_meter *nvml_meter_open(const char *uuid, struct err *err) {
    struct nvml_meter *m = xcalloc(1, sizeof *m);
    if (nvml_api_open(&m->api, err) < 0) {
        free(m);
        return NULL;
    }
    if (m->api.energy && find_device(m, uuid) && isfinite(nvml_meter_joules(m))) return m;
    err_set(err, "%s: NVML has no energy counter for this GPU", uuid);
    nvml_meter_close(m);
    return NULL;
}

double nvml_meter_joules(const struct nvml_meter *m) {
    unsigned long long mj = 0;
    return m && m->api.energy(m->device, &mj) == NVML_OK ? (double)mj * 1e-3 : NAN;
}

void nvml_meter_close(struct nvml_meter *m) {
    if (!m) return;
    nvml_api_close(&m->api);
    free(m);
}
