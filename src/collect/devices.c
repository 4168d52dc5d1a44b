#include "collect/devices.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "collect/cupti.h"
#include "collect/modules.h"
#include "collect/output.h"

/* Driver attributes and their meta keys. */
static const struct {
    int attribute;
    const char *key;
} limits[] = {
    { 16, "sms" },          { 39, "max_threads_per_sm" }, { 106, "max_blocks_per_sm" },
    { 82, "regs_per_sm" },  { 81, "smem_per_sm_bytes" },  { 10, "warp_size" },
    { 13, "sm_clock_khz" }, { 36, "memory_clock_khz" },   { 37, "memory_bus_bits" },
    { 38, "l2_bytes" },
};
enum { ATTRIBUTE_CC_MAJOR = 75, ATTRIBUTE_CC_MINOR = 76 };

static struct driver {
    void *library; /* NULL: not loaded yet */
    bool complete; /* it has all functions */
    int (*version)(int *);
    int (*count)(int *);
    int (*get)(int *, int);
    int (*name)(char *, int, int);
    int (*uuid)(unsigned char *, int);
    int (*attribute)(int *, int, int);
    int (*memory)(size_t *, int);
} driver;

static atomic_bool requested, described;

void devices_request(void) { atomic_store_explicit(&requested, true, memory_order_relaxed); }

void devices_load(void) {
    static const struct {
        size_t offset;
        const char *names[2];
    } rows[] = {
        { offsetof(struct driver, version), { "cuDriverGetVersion" } },
        { offsetof(struct driver, count), { "cuDeviceGetCount" } },
        { offsetof(struct driver, get), { "cuDeviceGet" } },
        { offsetof(struct driver, name), { "cuDeviceGetName" } },
        { offsetof(struct driver, uuid), { "cuDeviceGetUuid_v2", "cuDeviceGetUuid" } },
        { offsetof(struct driver, attribute), { "cuDeviceGetAttribute" } },
        { offsetof(struct driver, memory), { "cuDeviceTotalMem_v2", "cuDeviceTotalMem" } },
    };
    if (driver.library || !(driver.library = modules_find("libcuda.so"))) return;
    driver.complete = true;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        void *f = dlsym(driver.library, rows[i].names[0]);
        if (!f && rows[i].names[1]) f = dlsym(driver.library, rows[i].names[1]);
        memcpy((char *)&driver + rows[i].offset, &f, sizeof f);
        if (!f) driver.complete = false;
    }
}

static void put_device_meta(struct trace_writer *w, int device, const char *what, const char *value) {
    char key[64];
    snprintf(key, sizeof key, "device.%d.%s", device, what);
    trace_writer_meta(w, key, "%s", value);
}

static void describe_device(struct trace_writer *w, int i) {
    const struct driver *d = &driver;
    int device, v, minor;
    unsigned char id[16];
    char name[128] = "", text[160];
    size_t bytes;
    if (d->get(&device, i) != 0) return;
    if (d->name(name, sizeof name, device) == 0) put_device_meta(w, i, "name", name);
    if (d->uuid(id, device) == 0) {
        int n = snprintf(text, sizeof text, "%s", strstr(name, " MIG ") ? "MIG-" : "GPU-");
        for (int k = 0; k < 16; k++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%02x",
                          k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", id[k]);
        put_device_meta(w, i, "uuid", text);
    }
    if (d->attribute(&v, ATTRIBUTE_CC_MAJOR, device) == 0 &&
        d->attribute(&minor, ATTRIBUTE_CC_MINOR, device) == 0) {
        snprintf(text, sizeof text, "%d.%d", v, minor);
        put_device_meta(w, i, "cc", text);
    }
    for (size_t k = 0; k < COUNTOF(limits); k++) {
        if (d->attribute(&v, limits[k].attribute, device) != 0) continue;
        snprintf(text, sizeof text, "%d", v);
        put_device_meta(w, i, limits[k].key, text);
    }
    if (d->memory(&bytes, device) == 0) {
        snprintf(text, sizeof text, "%zu", bytes);
        put_device_meta(w, i, "memory_bytes", text);
    }
}

void devices_tick(void) {
    int n = 0, version = 0;
    if (!atomic_load_explicit(&requested, memory_order_relaxed) || atomic_load(&described)) return;
    /* If CUDA is not initialised yet, try again at the next tick. */
    devices_load();
    if (!driver.complete || driver.count(&n) != 0) return;
    struct trace_writer *w = output_take();
    if (!w) return;
    atomic_store(&described, true);
    if (driver.version(&version) == 0)
        trace_writer_meta(w, "cuda.driver", "%d.%d", version / 1000, version % 1000 / 10);
    for (int i = 0; i < MIN(n, 64); i++) describe_device(w, i);
    output_give();
}

/* Hash tables without collision handling. After a collision, a stream or context is written to the trace
 * again, which is harmless. */
#define SEEN_STREAMS 1024u
static _Atomic uint64_t seen_streams[SEEN_STREAMS], seen_contexts[64];

/* ---- the only stream */
#define NO_STREAM 0
#define SEVERAL_STREAMS UINT64_MAX
static _Atomic uint64_t only_stream; /* mark_of(), or a value above */

static uint64_t mark_of(uint32_t context, uint32_t stream) { return ((uint64_t)context << 32 | stream) + 1; }

static void track_only_stream(uint64_t mark) {
    uint64_t was = atomic_load_explicit(&only_stream, memory_order_relaxed);
    if (was == mark || was == SEVERAL_STREAMS) return;
    if (was != NO_STREAM || !atomic_compare_exchange_strong(&only_stream, &was, mark))
        atomic_store(&only_stream, SEVERAL_STREAMS);
}

bool devices_saw_several_streams(void) { return atomic_load(&only_stream) == SEVERAL_STREAMS; }

bool devices_only_stream_is(uint32_t context, uint32_t stream) {
    uint64_t mark = atomic_load(&only_stream);
    if (mark == NO_STREAM || mark == SEVERAL_STREAMS) return false;
    return stream == DEVICES_ALL_STREAMS ? (mark - 1) >> 32 == context : mark == mark_of(context, stream);
}

void devices_reset_stream(void) { atomic_store(&only_stream, NO_STREAM); }

void devices_note_stream(uint32_t device, uint32_t context, uint32_t stream) {
    _Atomic uint64_t *slot = &seen_streams[(context * 31 + stream) % SEEN_STREAMS];
    uint64_t mark = mark_of(context, stream);
    track_only_stream(mark);
    if (atomic_load_explicit(slot, memory_order_relaxed) == mark) return;
    atomic_store_explicit(slot, mark, memory_order_relaxed);
    devices_request();
    struct trace_writer *w = output_take();
    if (!w) return;
    char key[64];
    slot = &seen_contexts[context % 64];
    if (atomic_exchange(slot, context + (uint64_t)1) != context + (uint64_t)1) {
        snprintf(key, sizeof key, "context.%u.device", context);
        trace_writer_meta(w, key, "%u", device);
    }
    snprintf(key, sizeof key, "stream.%u.context", stream);
    trace_writer_meta(w, key, "%u", context);
    output_give();
}

void devices_after_fork(void) {
    atomic_store(&requested, false);
    atomic_store(&described, false);
    atomic_store(&only_stream, NO_STREAM);
    for (size_t i = 0; i < COUNTOF(seen_streams); i++) atomic_store(&seen_streams[i], 0);
    for (size_t i = 0; i < COUNTOF(seen_contexts); i++) atomic_store(&seen_contexts[i], 0);
}
