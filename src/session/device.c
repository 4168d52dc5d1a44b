#include "session/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/embed.h"
#include "base/strbuf.h"

static bool engine_can(const struct settings *s, const char *kind) {
    for (size_t i = 0; i < s->engine.devices->n; i++)
        if (strcmp(s->engine.devices->v[i]->text, kind) == 0) return true;
    return false;
}

static void list_devices(const struct nvml_inventory *inv, struct strbuf *out) {
    for (size_t i = 0; i < inv->ngpus; i++)
        strbuf_addf(out, "%scuda:%zu = %s (%s)", i ? ", " : "", i, inv->gpus[i].name, inv->gpus[i].uuid);
}

static void use_gpu(const struct nvml_inventory *inv, size_t i, struct device_choice *out) {
    out->cuda = true;
    out->index = (int)i;
    snprintf(out->id, sizeof out->id, "%s", inv->gpus[i].uuid);
    snprintf(out->name, sizeof out->name, "%s", inv->gpus[i].name);
    snprintf(out->label, sizeof out->label, "cuda:%zu", i);
}

static void use_cpu(struct device_choice *out) {
    *out = (struct device_choice){ .index = -1, .name = "cpu", .label = "cpu" };
}

static void report_absent(const char *want, const struct nvml_inventory *inv, struct strlist *errors) {
    struct strbuf have = STRBUF_INIT;
    list_devices(inv, &have);
    strlist_add(errors, "device=%s: not found; available: %s, cpu", want, have.buf);
    strbuf_free(&have);
}

/* Returns the index of the GPU; -1: a MIG instance; -2: not found. */
static int find_gpu(const char *want, const struct nvml_inventory *inv) {
    if (strcmp(want, "cuda") == 0 || strcmp(want, "gpu") == 0) return inv->ngpus ? 0 : -2;
    if (strncmp(want, "MIG-", 4) == 0) {
        for (size_t i = 0; i < inv->ngpus; i++)
            if (inv->gpus[i].mig == NVML_MIG_ON) return -1;
        return -2;
    }
    for (size_t i = 0; i < inv->ngpus; i++)
        if (strcmp(inv->gpus[i].uuid, want) == 0) return (int)i;
    if (strncmp(want, "cuda:", 5) != 0 || want[5] < '0' || want[5] > '9') return -2;
    char *end;
    unsigned long n = strtoul(want + 5, &end, 10);
    return *end || n >= inv->ngpus ? -2 : (int)n;
}

static bool looks_like_gpu(const char *want) {
    return strncmp(want, "cuda", 4) == 0 || strcmp(want, "gpu") == 0 || strncmp(want, "GPU-", 4) == 0 ||
           strncmp(want, "MIG-", 4) == 0;
}

/* Returns true if the engine is the native one and was built without nvcc. */
static bool lacks_kernels(const char *engine) {
    return strcmp(engine, "native") == 0 && !embed_find("cuda/operators.fatbin");
}

static void choose_gpu(const struct settings *s, const struct nvml_inventory *inv, const char *why_none,
                       struct device_choice *out, struct strlist *errors) {
    const char *want = s->device;
    if (!inv || !inv->ngpus) {
        strlist_add(errors, "device=%s: no usable NVIDIA GPU on this machine (%s); use device=cpu", want,
                    inv ? "NVML lists none" : why_none);
        return;
    }
    int at = find_gpu(want, inv);
    if (at == -2) {
        report_absent(want, inv, errors);
        return;
    }
    if (at >= 0) {
        use_gpu(inv, (size_t)at, out);
    } else {
        out->cuda = true;
        snprintf(out->id, sizeof out->id, "%s", want);
        snprintf(out->name, sizeof out->name, "MIG instance");
        snprintf(out->label, sizeof out->label, "MIG");
    }
    if (!engine_can(s, "cuda"))
        strlist_add(
            errors,
            "device=%s: engine %s runs on the CPU only; use device=cpu, or an engine for GPUs (engine=hf)",
            want, s->engine.name);
    else if (lacks_kernels(s->engine.name))
        strlist_add(errors,
                    "device=%s: this program was built without nvcc, so its native engine has no GPU "
                    "kernels: install "
                    "the CUDA toolkit and build again, or use device=cpu",
                    want);
}

void device_choose(const struct settings *s, const struct nvml_inventory *inv, const char *why_none,
                   struct device_choice *out, struct strlist *errors) {
    use_cpu(out);
    if (strcmp(s->device, "auto") == 0) {
        if (engine_can(s, "cuda") && inv && inv->ngpus && !lacks_kernels(s->engine.name)) {
            use_gpu(inv, 0, out);
            if (inv->ngpus > 1)
                snprintf(out->note, sizeof out->note,
                         "%zu GPUs found, using cuda:0 (%.80s); choose another with device=cuda:N",
                         inv->ngpus, inv->gpus[0].name);
        } else if (!engine_can(s, "cpu")) {
            strlist_add(errors, "engine %s needs a GPU, but none is available (%s)", s->engine.name,
                        inv ? "NVML lists none" : why_none);
        }
    } else if (strcmp(s->device, "cpu") == 0) {
        if (!engine_can(s, "cpu"))
            strlist_add(errors, "device=cpu: engine %s does not run on a CPU; use engine=native",
                        s->engine.name);
    } else if (looks_like_gpu(s->device)) {
        choose_gpu(s, inv, why_none, out, errors);
    } else {
        strlist_add(errors, "device=%s: expected cpu, cuda:N, a GPU UUID (GPU-...) or a MIG id (MIG-...)",
                    s->device);
    }
}

int device_name(const char *want, const char *engine, const struct nvml_inventory *inv, char out[112],
                struct err *err) {
    bool gpus = inv && inv->ngpus;
    if (strcasecmp(want, "cpu") == 0 || (strcmp(want, "auto") == 0 && (!gpus || lacks_kernels(engine)))) {
        snprintf(out, 112, "cpu");
        return 0;
    }
    int at = strcmp(want, "auto") == 0 ? 0 : gpus && looks_like_gpu(want) ? find_gpu(want, inv) : -2;
    if (at == -2) return err_set(err, "device=%s: this machine has no such device; use auto or cpu", want);
    if (at == -1)
        snprintf(out, 112, "%s", want);
    else
        snprintf(out, 112, "cuda:%d", at);
    return 0;
}
