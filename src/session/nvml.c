#include "session/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/util.h"
#include "session/nvml_api.h"
#include "trace/writer.h"

struct nvml_sampler {
    struct nvml_api api;
    struct trace_writer *writer;
    unsigned interval_ms, ndevices;
    nvml_device devices[NVML_MAX_GPUS];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stop_asked;
    bool stop;
};

static void sample_gpu(const struct nvml_sampler *s, unsigned i) {
    const struct nvml_api *api = &s->api;
    nvml_device d = s->devices[i];
    unsigned v = 0;
    unsigned long long wide = 0;
    struct trace_power p = { .time_ns = clock_wall_ns(),
                             .device = i,
                             .power_mw = TRACE_UNKNOWN_U32,
                             .sm_mhz = TRACE_UNKNOWN_U32,
                             .memory_mhz = TRACE_UNKNOWN_U32,
                             .temperature_c = TRACE_UNKNOWN_U32 };
    if (api->power && api->power(d, &v) == NVML_OK) p.power_mw = v;
    if (api->clock && api->clock(d, NVML_CLOCK_SM, &v) == NVML_OK) p.sm_mhz = v;
    if (api->clock && api->clock(d, NVML_CLOCK_MEM, &v) == NVML_OK) p.memory_mhz = v;
    if (api->temperature && api->temperature(d, NVML_TEMPERATURE_GPU, &v) == NVML_OK) p.temperature_c = v;
    if (api->throttle && api->throttle(d, &wide) == NVML_OK) p.throttle_reasons = wide;
    if (api->energy && api->energy(d, &wide) == NVML_OK) p.energy_mj = wide;
    trace_writer_power(s->writer, &p, 1);
}

/* Waits until the time of the next sample. Returns true if sampling must stop. */
static bool wait_until(struct nvml_sampler *s, uint64_t mono_ns) {
    struct timespec t = { (time_t)(mono_ns / 1000000000u), (long)(mono_ns % 1000000000u) };
    pthread_mutex_lock(&s->lock);
    int rc = 0;
    while (!s->stop && rc == 0) rc = pthread_cond_timedwait(&s->stop_asked, &s->lock, &t);
    bool stop = s->stop;
    pthread_mutex_unlock(&s->lock);
    return stop;
}

static void *sampler_main(void *arg) {
    struct nvml_sampler *s = arg;
    uint64_t step = s->interval_ms * (uint64_t)1000000, next = clock_mono_ns();
    bool last;
    do {
        for (unsigned i = 0; i < s->ndevices; i++) sample_gpu(s, i);
        next = MAX(next + step, clock_mono_ns() + step / 4);
        last = wait_until(s, next);
    } while (!last);
    for (unsigned i = 0; i < s->ndevices; i++) sample_gpu(s, i); /* final energy reading */
    return NULL;
}

static void query_gpu(const struct nvml_api *api, nvml_device d, struct nvml_gpu *g) {
    unsigned v = 0, pending = 0;
    struct nvml_memory memory;
    *g = (struct nvml_gpu){ .cc_major = -1, .cc_minor = -1 };
    if (api->name) api->name(d, g->name, sizeof g->name);
    if (api->uuid) api->uuid(d, g->uuid, sizeof g->uuid);
    if (api->memory && api->memory(d, &memory) == NVML_OK) g->memory_bytes = memory.total;
    if (api->capability && api->capability(d, &g->cc_major, &g->cc_minor) != NVML_OK)
        g->cc_major = g->cc_minor = -1;
    if (api->max_clock && api->max_clock(d, NVML_CLOCK_SM, &v) == NVML_OK) g->sm_max_mhz = v;
    if (api->power_limit && api->power_limit(d, &v) == NVML_OK) g->power_limit_mw = v;
    int rc = api->mig ? api->mig(d, &v, &pending) : -1;
    if (rc == NVML_OK) g->mig = v ? NVML_MIG_ON : NVML_MIG_OFF;
    if (rc == NVML_NOT_SUPPORTED) g->mig = NVML_MIG_NOT_SUPPORTED;
}

static void write_meta(const struct nvml_sampler *s) {
    char driver[96] = "";
    int cuda = 0;
    trace_writer_meta(s->writer, "clock", "unix");
    trace_writer_meta(s->writer, "source", "nvml");
    if (s->api.driver_version(driver, sizeof driver) == NVML_OK)
        trace_writer_meta(s->writer, "nvidia.driver", "%s", driver);
    if (s->api.cuda_version && s->api.cuda_version(&cuda) == NVML_OK && cuda > 0)
        trace_writer_meta(s->writer, "cuda.driver", "%d.%d", cuda / 1000, cuda % 1000 / 10);
    trace_writer_meta(s->writer, "setting.nvml_interval_ms", "%u", s->interval_ms);
    for (unsigned i = 0; i < s->ndevices; i++) {
        struct nvml_gpu g;
        char key[64];
        query_gpu(&s->api, s->devices[i], &g);
        snprintf(key, sizeof key, "device.%u.name", i);
        trace_writer_meta(s->writer, key, "%s", g.name);
        snprintf(key, sizeof key, "device.%u.uuid", i);
        trace_writer_meta(s->writer, key, "%s", g.uuid);
        snprintf(key, sizeof key, "device.%u.power_limit_mw", i);
        if (g.power_limit_mw) trace_writer_meta(s->writer, key, "%u", g.power_limit_mw);
    }
}

static int list_devices(struct nvml_sampler *s, struct err *err) {
    unsigned n = 0;
    int rc = s->api.count(&n);
    if (rc != NVML_OK) return err_set(err, "NVML cannot list the GPUs: %s", s->api.error_string(rc));
    for (unsigned i = 0; i < n && s->ndevices < NVML_MAX_GPUS; i++)
        if (s->api.handle(i, &s->devices[s->ndevices]) == NVML_OK) s->ndevices++;
    if (s->ndevices == 0) return err_set(err, "NVML found no GPU: no power, clocks or energy");
    return 0;
}

static int start_thread(struct nvml_sampler *s, struct err *err) {
    pthread_condattr_t attr;
    sigset_t all, old;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->stop_asked, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&s->lock, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int rc = pthread_create(&s->thread, NULL, sampler_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc == 0 ? 0 : err_set(err, "cannot start the NVML thread: %s", strerror(rc));
}

struct nvml_sampler *nvml_sampler_start(const char *trace_path, unsigned interval_ms, struct err *err) {
    struct nvml_sampler *s = xcalloc(1, sizeof *s);
    s->interval_ms = interval_ms ? interval_ms : 100;
    if (nvml_api_open(&s->api, err) < 0) goto fail;
    if (list_devices(s, err) < 0) goto fail;
    if (!(s->writer = trace_writer_open(trace_path, NULL, err))) goto fail;
    write_meta(s);
    if (start_thread(s, err) < 0) goto fail;
    return s;
fail:
    if (s->writer) {
        struct err ignored;
        trace_writer_close(s->writer, &ignored);
    }
    nvml_api_close(&s->api);
    free(s);
    return NULL;
}

int nvml_sampler_stop(struct nvml_sampler *s, struct err *err) {
    if (!s) return 0;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->stop_asked);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    int rc = trace_writer_close(s->writer, err);
    nvml_api_close(&s->api);
    pthread_cond_destroy(&s->stop_asked);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return rc;
}

int nvml_inventory(struct nvml_inventory *out, struct err *err) {
    struct nvml_api api;
    Dl_info info;
    unsigned n = 0;
    memset(out, 0, sizeof *out);
    if (nvml_api_open(&api, err) < 0) return -1;
    void *address;
    memcpy(&address, &api.init, sizeof address);
    if (dladdr(address, &info) && info.dli_fname)
        snprintf(out->library, sizeof out->library, "%s", info.dli_fname);
    api.driver_version(out->driver, sizeof out->driver);
    if (api.cuda_version && api.cuda_version(&out->cuda_version) != NVML_OK) out->cuda_version = 0;
    if (api.count(&n) != NVML_OK) n = 0;
    for (unsigned i = 0; i < n && out->ngpus < NVML_MAX_GPUS; i++) {
        nvml_device d;
        if (api.handle(i, &d) == NVML_OK) query_gpu(&api, d, &out->gpus[out->ngpus++]);
    }
    nvml_api_close(&api);
    return 0;
}
