/* A libcupti without a GPU: the ABI of CUPTI 13.0, with generated records or records from a tape. MOCK_CUPTI
 * is a comma-separated list of faults:
 *     zero      every 10th kernel has no times           reversed  every 10th kernel ends before it starts
 *     early     every 10th starts 1 s before its launch  unknown   every 10th record is of an unknown kind
 *     dropped   reports once that 7 records were dropped refuse    enabling kernels fails: no privileges
 *     held      another subscriber is active             late      buffers are returned only when flushed
 *     hang      a flush never returns                    cutoff    the last record of a buffer is truncated
 *     worker    buffers are returned on a thread of CUPTI's own
 *     once      after a disable, kernels are never delivered again
 *     fragile   the same, if kernels were enabled before any callback
 *     hasty     kernels that were not flushed before a disable lose their times
 *     slowoff   disabling kernels takes until mock_release(); a forced flush after it never returns
 *     clings    cuptiFinalize() fails and detaches nothing
 *     lengthy   the first flush that is not forced lasts for 12 synchronisations, at most 2 s
 * MOCK_CUPTI_VERSION=N sets the reported version; MOCK_CLOCK_SHIFT=NS shifts CUPTI's clock. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collect/abi.h"
#include "collect/layout.h"
#include "collect/raw.h"
#include "mock/mock.h"

#define EXPORT __attribute__((visibility("default")))
#define UNKNOWN_KIND 77
#define UNKNOWN_BYTES 48

/* Runtime calls and the driver call that each of them makes. */
static const struct pair {
    uint32_t runtime, driver;
    const char *runtime_name, *driver_name;
} pairs[] = {
    [MOCK_KERNEL] = { 211, 307, "cudaLaunchKernel", "cuLaunchKernel" },
    [MOCK_GRAPH] = { 311, 514, "cudaGraphLaunch", "cuGraphLaunch" },
    [MOCK_MEMCPY] = { 41, 277, "cudaMemcpyAsync", "cuMemcpyHtoDAsync_v2" },
    [MOCK_MEMSET] = { 51, 216, "cudaMemsetAsync", "cuMemsetD8Async" },
    [MOCK_SYNC] = { 131, 126, "cudaStreamSynchronize", "cuStreamSynchronize" },
    { 430, 652, "cudaLaunchKernelExC", "cuLaunchKernelEx" },
    { 147, 295, "cudaStreamWaitEvent", "cuStreamWaitEvent" },
    { 165, 17, "cudaDeviceSynchronize", "cuCtxSynchronize" },
    { 137, 121, "cudaEventSynchronize", "cuEventSynchronize" },
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static unsigned returning; /* buffers being returned to their owner */
static _Atomic(cupti_buffer_request) request;
static _Atomic(cupti_buffer_complete) complete;
static _Atomic(cupti_callback) callback;
static _Atomic(void *) callback_user;
static atomic_uchar enabled_calls[4][1024], enabled_kinds[64];
static uint8_t *buffer;
static size_t buffer_bytes, buffer_used;
static atomic_uint correlations, records;
static atomic_bool dropped_reported;
static atomic_bool ids_stuck; /* all calls get the same correlation id */
static atomic_bool held;      /* another tool is subscribed */
/* Static TLS. TLS that is allocated at first use confuses LeakSanitizer: it guesses the size of such blocks,
 * and failed when one started 16 bytes after a page boundary. */
#define THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))
THREAD_LOCAL bool has_waited; /* inside the end callback of a synchronisation */
static atomic_uint waits;     /* number of synchronisations */
/* a graph was launched after kernel records were disabled */
static atomic_bool late_graph, kernels_seen;
static atomic_bool watched, fragile, kernels_dead; /* a call has a callback; see the faults above */
static atomic_uint device;                         /* as the program numbers it; its context is device + 1 */

struct full {
    struct full *next;
    uint8_t *buffer;
    size_t bytes, used;
};
static struct full *late_buffers;

static bool has_fault(const char *name) {
    const char *all = getenv("MOCK_CUPTI"), *p = all ? strstr(all, name) : NULL;
    return p && (p == all || p[-1] == ',') && (p[strlen(name)] == ',' || p[strlen(name)] == '\0');
}

static bool hasty, late, zero, reversed, early, unknown, cutoff, worker;
__attribute__((constructor)) static void read_faults(void) {
    hasty = has_fault("hasty");
    late = has_fault("late");
    zero = has_fault("zero");
    reversed = has_fault("reversed");
    early = has_fault("early");
    unknown = has_fault("unknown");
    cutoff = has_fault("cutoff");
    worker = has_fault("worker");
}

static uint32_t version(void) {
    const char *v = getenv("MOCK_CUPTI_VERSION");
    return v ? (uint32_t)atol(v) : 130001;
}

static uint64_t now_ns(void) {
    const char *shift = getenv("MOCK_CLOCK_SHIFT");
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + (uint64_t)(shift ? atoll(shift) : 0);
}

EXPORT int cuptiGetVersion(uint32_t *v);
int cuptiGetVersion(uint32_t *v) {
    *v = version();
    return 0;
}
EXPORT int cuptiGetResultString(int code, const char **text);
int cuptiGetResultString(int code, const char **text) {
    *text = code == CUPTI_E_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_UNKNOWN";
    return 0;
}
EXPORT int cuptiGetTimestamp(uint64_t *t);
int cuptiGetTimestamp(uint64_t *t) {
    *t = now_ns();
    return 0;
}
EXPORT int cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *id);
int cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *id) {
    (void)context;
    (void)per_thread;
    *id = (uint32_t)(uintptr_t)stream;
    return 0;
}

/* ---- callbacks */
static atomic_uint subscriptions;
EXPORT int cuptiSubscribe(void **subscriber, cupti_callback f, void *user);
int cuptiSubscribe(void **subscriber, cupti_callback f, void *user) {
    if (held || has_fault("held")) return CUPTI_E_MULTIPLE_SUBSCRIBERS;
    callback = f;
    callback_user = user;
    *subscriber = &callback;
    atomic_fetch_add(&subscriptions, 1);
    return 0;
}
EXPORT int cuptiUnsubscribe(void *subscriber);
int cuptiUnsubscribe(void *subscriber) {
    (void)subscriber;
    callback = NULL;
    return 0;
}
EXPORT int cuptiEnableCallback(uint32_t on, void *subscriber, int domain, uint32_t id);
int cuptiEnableCallback(uint32_t on, void *subscriber, int domain, uint32_t id) {
    if (!subscriber || domain > 3 || id >= 1024) return 1;
    if (!on && domain == DOMAIN_RUNTIME)
        ids_stuck = true; /* like CUPTI 13.0.1 if a thread is inside the call */
    if (on && domain == DOMAIN_DRIVER) watched = true;
    enabled_calls[domain][id] = (uint8_t)on;
    return 0;
}

static void call(int domain, uint32_t id, int site, const char *function, uint32_t correlation,
                 const void *params) {
    cupti_callback f = callback;
    if (!f || !enabled_calls[domain][id]) return;
    THREAD_LOCAL uint64_t carried[4]; /* calls of one domain are never nested */
    struct cupti_callback_data d = { .site = site,
                                     .function = function,
                                     .params = params,
                                     .context_uid = 1,
                                     .correlation_data = &carried[domain],
                                     .correlation = correlation };
    has_waited = site == SITE_EXIT && domain == DOMAIN_DRIVER && (id == 126 || id == 17);
    atomic_fetch_add(&waits, has_waited);
    f(callback_user, domain, id, &d);
    has_waited = false;
}

/* Detaches. Aborts unless called where it is safe in a real program: at the end of a synchronisation (the
 * real function waits for the GPU), and without a graph launch since kernel records were disabled (the real
 * function breaks such graphs). Like the real one,
 * it loses a buffer and restarts the correlation ids. */
static atomic_uint detaches;
EXPORT bool mock_detached(unsigned n);
bool mock_detached(unsigned n) { return atomic_load(&detaches) >= n; }

EXPORT int cuptiFinalize(void);
int cuptiFinalize(void) {
    size_t max_records;
    if (!has_waited || late_graph) abort();
    if (has_fault("clings")) return 1;
    atomic_fetch_add(&detaches, 1);
    pthread_mutex_lock(&lock);
    if (!buffer && request) request(&buffer, &buffer_bytes, &max_records);
    callback = NULL;
    for (int d = 0; d < 4; d++)
        for (int i = 0; i < 1024; i++) enabled_calls[d][i] = 0;
    for (int i = 0; i < 64; i++) enabled_kinds[i] = 0;
    request = NULL;
    complete = NULL;
    buffer = NULL;
    atomic_store(&correlations, 0);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- buffers */
EXPORT int cuptiActivityRegisterCallbacks(cupti_buffer_request r, cupti_buffer_complete c);
int cuptiActivityRegisterCallbacks(cupti_buffer_request r, cupti_buffer_complete c) {
    request = r;
    complete = c;
    return 0;
}
EXPORT int cuptiActivityEnable(int kind);
int cuptiActivityEnable(int kind) {
    if (has_fault("refuse") && kind == KIND_CONCURRENT_KERNEL) return CUPTI_E_PRIVILEGES;
    if (kind == KIND_CONCURRENT_KERNEL && kernels_dead) return 0;
    if (kind == KIND_CONCURRENT_KERNEL && has_fault("fragile") && !watched) fragile = true;
    enabled_kinds[kind] = 1;
    if (kind == KIND_CONCURRENT_KERNEL) {
        kernels_seen = true;
        late_graph = false;
    }
    return 0;
}
static size_t record_bytes(uint32_t kind);
static void clear_times(void) {
    const struct layout *l = layout_find(version());
    pthread_mutex_lock(&lock);
    for (size_t at = 0; buffer && at < buffer_used; at += record_bytes(field_u32(buffer + at, 0)))
        if (field_u32(buffer + at, 0) == KIND_CONCURRENT_KERNEL) {
            memset(buffer + at + l->kernel->start, 0, 8);
            memset(buffer + at + l->kernel->end, 0, 8);
        }
    pthread_mutex_unlock(&lock);
}
/* ---- attached */
EXPORT bool mock_attached(unsigned n);
bool mock_attached(unsigned n) {
    for (int i = 0; i < 120000; i++) {
        if (atomic_load(&subscriptions) >= n && enabled_kinds[KIND_CONCURRENT_KERNEL]) return true;
        usleep(500);
    }
    return false;
}

/* ---- slowoff: the program waits until a disable is in progress, then lets it continue */
static atomic_bool disabling, released;
EXPORT void mock_await(void);
void mock_await(void) {
    while (!atomic_load(&disabling)) usleep(500);
}
EXPORT void mock_release(void);
void mock_release(void) { atomic_store(&released, true); }

static void disable_slowly(void) {
    atomic_store(&disabling, true);
    while (!atomic_load(&released)) usleep(500);
}

EXPORT int cuptiActivityDisable(int kind);
int cuptiActivityDisable(int kind) {
    if (kind == KIND_CONCURRENT_KERNEL && has_fault("slowoff")) disable_slowly();
    if (hasty && kind == KIND_CONCURRENT_KERNEL && enabled_kinds[kind]) clear_times();
    if (kind == KIND_CONCURRENT_KERNEL && (fragile || has_fault("once"))) kernels_dead = true;
    enabled_kinds[kind] = 0;
    return 0;
}
EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n);
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n) {
    (void)context;
    (void)stream;
    *n = has_fault("dropped") && !dropped_reported ? 7 : 0;
    dropped_reported = true;
    return 0;
}

static size_t record_bytes(uint32_t kind) {
    const struct layout *l = layout_find(version());
    size_t n = l ? layout_record_bytes(l, kind) : 0;
    return n ? n : UNKNOWN_BYTES;
}

EXPORT int cuptiActivityGetNextRecord(uint8_t *b, size_t valid, uint8_t **record);
int cuptiActivityGetNextRecord(uint8_t *b, size_t valid, uint8_t **record) {
    uint8_t *next = *record ? *record + record_bytes(field_u32(*record, 0)) : b;
    if (next >= b + valid) return CUPTI_E_MAX_LIMIT;
    *record = next;
    return 0;
}

static void *return_buffer(void *arg) {
    struct full *f = arg;
    complete(NULL, 0, f->buffer, f->bytes, f->used);
    free(f);
    return NULL;
}

/* Called with the lock held; releases it while the owner reads. */
static void buffer_full(bool flushing) {
    if (!buffer) return;
    struct full *f = malloc(sizeof *f);
    *f = (struct full){ late_buffers, buffer, buffer_bytes,
                        cutoff && buffer_used > 8 ? buffer_used - 8 : buffer_used };
    buffer = NULL;
    if (late && !flushing) {
        late_buffers = f;
        return;
    }
    returning++;
    pthread_mutex_unlock(&lock);
    pthread_t t;
    if (worker && pthread_create(&t, NULL, return_buffer, f) == 0)
        pthread_join(t, NULL);
    else
        return_buffer(f);
    pthread_mutex_lock(&lock);
    returning--;
    pthread_cond_broadcast(&returned);
}

static void wait_for_synchronisations(void) {
    static atomic_bool done;
    if (atomic_exchange(&done, true)) return;
    unsigned until = atomic_load(&waits) + 12;
    for (int ms = 0; ms < 2000 && atomic_load(&waits) < until; ms++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

EXPORT int cuptiActivityFlushAll(uint32_t flag);
int cuptiActivityFlushAll(uint32_t flag) {
    if (!flag && has_fault("lengthy")) wait_for_synchronisations();
    while (has_fault("hang") || (flag && atomic_load(&released))) pause();
    pthread_mutex_lock(&lock);
    if (flag || !late) buffer_full(true);
    while (flag && late_buffers) {
        struct full *f = late_buffers;
        late_buffers = f->next;
        pthread_mutex_unlock(&lock);
        return_buffer(f);
        pthread_mutex_lock(&lock);
    }
    while (flag && returning)
        pthread_cond_wait(&returned, &lock); /* also wait for buffers that other threads are returning */
    pthread_mutex_unlock(&lock);
    return 0;
}

static void *flush_main(void *arg) {
    uint32_t ms = *(uint32_t *)arg;
    for (;;) {
        usleep(ms * 1000);
        if (!late && !has_fault("hang")) cuptiActivityFlushAll(0);
    }
    return NULL;
}
EXPORT int cuptiActivityFlushPeriod(uint32_t ms);
int cuptiActivityFlushPeriod(uint32_t ms) {
    static uint32_t period;
    pthread_t t;
    if (period == 0 && (period = ms) && pthread_create(&t, NULL, flush_main, &period) == 0) pthread_detach(t);
    return 0;
}

static void append(const uint8_t *record, size_t n) {
    size_t max_records;
    pthread_mutex_lock(&lock);
    while (buffer && buffer_used + n > buffer_bytes)
        buffer_full(false); /* other threads may fill the next one in the meantime */
    if (!buffer && request) {
        request(&buffer, &buffer_bytes, &max_records);
        buffer_used = 0;
    }
    if (buffer && buffer_used + n <= buffer_bytes) {
        memcpy(buffer + buffer_used, record, n);
        buffer_used += n;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- work */
static void put(uint8_t *r, size_t at, const void *v, size_t n) { memcpy(r + at, v, n); }
static void put32(uint8_t *r, size_t at, uint32_t v) { put(r, at, &v, sizeof v); }
static void put64(uint8_t *r, size_t at, uint64_t v) { put(r, at, &v, sizeof v); }

/* ---- graphs: the handle of graph N is a pointer, its number in records is N + 5 */
static atomic_uint graph;
static uint32_t graph_number(void) { return graph + 5; }
static void *graph_handle(void) { return (void *)((uintptr_t)0x10000 + graph * 64); }
EXPORT void *mock_graph_handle(void);
void *mock_graph_handle(void) { return graph_handle(); }
EXPORT int cuptiGetGraphExecId(void *handle, uint32_t *id);
int cuptiGetGraphExecId(void *handle, uint32_t *id) {
    *id = (uint32_t)(((uintptr_t)handle - 0x10000) / 64) + 5;
    return 0;
}
static bool capturing; /* kernels are captured and do not run */

EXPORT void mock_graph(uint32_t number, int change);
void mock_graph(uint32_t number, int change) {
    static const struct {
        uint32_t id;
        const char *name;
    } calls[] = { [MOCK_GRAPH_MADE] = { 643, "cuGraphInstantiateWithFlags" },
                  [MOCK_GRAPH_UPDATED] = { 696, "cuGraphExecUpdate_v2" },
                  [MOCK_CAPTURE_BEGINS] = { 539, "cuStreamBeginCapture_v2" },
                  [MOCK_CAPTURE_ENDS] = { 497, "cuStreamEndCapture" } };
    bool captures = change == MOCK_CAPTURE_BEGINS || change == MOCK_CAPTURE_ENDS;
    if (captures)
        capturing = change == MOCK_CAPTURE_BEGINS;
    else
        graph = number;
    void *handle = graph_handle(), *made[1] = { &handle }, *updated[1] = { handle };
    uint32_t correlation = atomic_fetch_add(&correlations, 1) + 1;
    if (change == MOCK_GRAPH_SAME) return;
    for (int site = SITE_ENTER; site <= SITE_EXIT; site++)
        call(DOMAIN_DRIVER, calls[change].id, site, calls[change].name, correlation,
             change == MOCK_GRAPH_MADE ? made : updated);
}

static void bad_times(uint64_t *start, uint64_t *end) {
    if (atomic_fetch_add(&records, 1) % 10 != 3) return;
    if (zero) *start = *end = 0;
    if (reversed) *end = *start - 1000;
    if (early) {
        *start -= 1000000000u;
        *end -= 1000000000u;
    }
    if (unknown) {
        uint8_t r[UNKNOWN_BYTES] = { UNKNOWN_KIND };
        append(r, sizeof r);
    }
}

static void kernel_record(const char *name, uint32_t correlation, uint32_t stream, uint64_t start,
                          uint64_t node) {
    uint8_t r[256] = { KIND_CONCURRENT_KERNEL };
    const struct layout_kernel *at = layout_find(version())->kernel;
    uint64_t end = start + 2000;
    bad_times(&start, &end);
    put64(r, at->start, start);
    put64(r, at->end, end);
    put32(r, at->correlation, correlation);
    put32(r, at->device, device);
    put32(r, at->context, device + 1);
    put32(r, at->stream, stream);
    put(r, at->name, &name, sizeof name);
    put32(r, at->grid, 132);
    put32(r, at->grid + 4u, 2);
    put32(r, at->grid + 8u, 1);
    put32(r, at->block, 256);
    put32(r, at->block + 4u, 1);
    put32(r, at->block + 8u, 1);
    put(r, at->registers, &(uint16_t){ 64 }, 2);
    put32(r, at->static_smem, 1024);
    put32(r, at->dynamic_smem, 49152);
    put64(r, at->graph_node, node);
    put32(r, at->graph, node ? graph_number() : 0);
    append(r, record_bytes(KIND_CONCURRENT_KERNEL));
}

static void copy_record(uint32_t kind, uint32_t correlation, uint32_t stream, uint64_t start) {
    uint8_t r[256] = { (uint8_t)kind };
    const struct layout *l = layout_find(version());
    const struct layout_copy *at = kind == KIND_MEMCPY ? l->memcpy_ : l->memset_;
    if (kind == KIND_MEMCPY) r[at->copy_kind] = 1;
    put64(r, at->start, start);
    put64(r, at->end, start + 5000);
    put64(r, at->bytes, 4096);
    put32(r, at->correlation, correlation);
    put32(r, at->stream, stream);
    put32(r, at->device, device);
    put32(r, at->context, device + 1);
    append(r, record_bytes(kind));
}

static void graph_record(uint32_t correlation, uint32_t stream, uint64_t start) {
    uint8_t r[64] = { KIND_GRAPH_TRACE };
    const struct layout *l = layout_find(version());
    put64(r, l->graph->start, start);
    put64(r, l->graph->end, start + 33600);
    put32(r, l->graph->correlation, correlation);
    put32(r, l->graph->graph, graph_number());
    put32(r, l->graph->device, device);
    put32(r, l->graph->context, device + 1);
    put32(r, l->graph->stream, stream);
    append(r, l->graph_bytes);
}

static void work_records(enum mock_work work, const char *name, uint32_t correlation, uint32_t stream) {
    uint64_t start = now_ns() + 3000;
    bool kernels = enabled_kinds[KIND_CONCURRENT_KERNEL], whole = enabled_kinds[KIND_GRAPH_TRACE];
    if (work == MOCK_KERNEL && kernels && !capturing) kernel_record(name, correlation, stream, start, 0);
    if (work == MOCK_GRAPH && whole) graph_record(correlation, stream, start);
    for (uint64_t node = 1; work == MOCK_GRAPH && node <= 16 && kernels && !whole; node++)
        kernel_record(name, correlation, stream, start + node * 2100, node);
    if (work == MOCK_MEMCPY && enabled_kinds[KIND_MEMCPY])
        copy_record(KIND_MEMCPY, correlation, stream, start);
    if (work == MOCK_MEMSET && enabled_kinds[KIND_MEMSET])
        copy_record(KIND_MEMSET, correlation, stream, start);
}

EXPORT void mock_work(enum mock_work work, const char *name, uint32_t stream);
void mock_work(enum mock_work work, const char *name, uint32_t stream) {
    const struct pair *p = &pairs[work];
    if (work == MOCK_GRAPH && !enabled_kinds[KIND_CONCURRENT_KERNEL] && kernels_seen) late_graph = true;
    uint32_t correlation = ids_stuck ? 1 : atomic_fetch_add(&correlations, 1) + 1;
    void *params[2] = { (void *)(uintptr_t)stream, NULL };
    if (work == MOCK_GRAPH) {
        params[0] = graph_handle();
        params[1] = (void *)(uintptr_t)stream;
    }
    call(DOMAIN_RUNTIME, p->runtime, SITE_ENTER, p->runtime_name, correlation, params);
    call(DOMAIN_DRIVER, p->driver, SITE_ENTER, p->driver_name, correlation, params);
    work_records(work, name, correlation, stream);
    call(DOMAIN_DRIVER, p->driver, SITE_EXIT, p->driver_name, correlation, params);
    call(DOMAIN_RUNTIME, p->runtime, SITE_EXIT, p->runtime_name, correlation, params);
}

EXPORT void mock_memory(uint64_t address, uint64_t bytes);
void mock_memory(uint64_t address, uint64_t bytes) {
    uint32_t correlation = atomic_fetch_add(&correlations, 1) + 1;
    struct {
        const uint64_t *address;
        uint64_t bytes;
    } alloc = { &address, bytes };
    const void *params = bytes ? (const void *)&alloc : &address;
    uint32_t id = bytes ? 243 : 245;
    call(DOMAIN_DRIVER, id, SITE_ENTER, bytes ? "cuMemAlloc_v2" : "cuMemFree_v2", correlation, params);
    call(DOMAIN_DRIVER, id, SITE_EXIT, bytes ? "cuMemAlloc_v2" : "cuMemFree_v2", correlation, params);
}

static void other_request(uint8_t **b, size_t *n, size_t *max) {
    *b = malloc(*n = 65536);
    *max = 0;
}
static void other_complete(void *context, uint32_t stream, uint8_t *b, size_t n, size_t valid) {
    (void)context;
    (void)stream;
    (void)n;
    (void)valid;
    free(b);
}
EXPORT void mock_device(uint32_t number);
void mock_device(uint32_t number) { device = number; }
EXPORT void mock_hold(void);
void mock_hold(void) { held = true; }
EXPORT void mock_takeover(void);
void mock_takeover(void) { cuptiActivityRegisterCallbacks(other_request, other_complete); }

/* ---- tapes: the calls are made now; their records follow at the recorded distance */
struct text {
    uint64_t address;
    char *copy;
};
static struct text *texts;
static size_t ntexts;
static struct raw_call *tape_calls;
static size_t ncalls;

static void *grown(void *old, size_t n, size_t elem) {
    void *v = realloc(old, n * elem);
    if (!v) abort();
    return v;
}

static const char *text_at(uint64_t address) {
    for (size_t i = ntexts; i > 0; i--)
        if (texts[i - 1].address == address) return texts[i - 1].copy;
    return "?";
}

static void add_text(const uint8_t *p, size_t n) {
    struct text t = { field_u64(p, 0), strndup((const char *)p + 8, n - 8) };
    texts = grown(texts, ntexts + 1, sizeof *texts);
    texts[ntexts++] = t;
}

/* The driver call of a recorded runtime call; a recorded driver call is its own. */
static const struct pair *pair_of(const struct raw_call *c) {
    size_t n = sizeof pairs / sizeof pairs[0], i = 0;
    while (i < n && (c->domain == DOMAIN_RUNTIME ? pairs[i].runtime : pairs[i].driver) != c->id) i++;
    return &pairs[i < n ? i : MOCK_KERNEL];
}

/* Makes the calls, and stores in end_ns of each how much later than recorded it was made. */
static void replay_calls(void) {
    for (size_t i = 0; i < ncalls; i++) {
        struct raw_call *c = &tape_calls[i];
        const struct pair *p = pair_of(c);
        void *params[1] = { NULL };
        bool nested = c->domain == DOMAIN_RUNTIME;
        if (nested) call(DOMAIN_RUNTIME, c->id, SITE_ENTER, text_at(c->name), c->correlation, params);
        call(DOMAIN_DRIVER, p->driver, SITE_ENTER, p->driver_name, c->correlation, params);
        uint64_t now = now_ns(); /* after the start of the call: the kernel must not start before it */
        call(DOMAIN_DRIVER, p->driver, SITE_EXIT, p->driver_name, c->correlation, params);
        if (nested) call(DOMAIN_RUNTIME, c->id, SITE_EXIT, text_at(c->name), c->correlation, params);
        c->end_ns = now - c->start_ns;
    }
}

static uint64_t shift_of(uint32_t correlation) {
    for (size_t i = 0; i < ncalls; i++)
        if (tape_calls[i].correlation == correlation) return tape_calls[i].end_ns;
    return ncalls ? tape_calls[0].end_ns : 0;
}

static long replay_buffer(const struct layout *l, uint8_t *p, size_t n) {
    long kernels = 0;
    for (size_t at = 0; at + 8 <= n;) {
        uint32_t kind = field_u32(p + at, 0), bytes = layout_record_bytes(l, kind);
        if (!bytes || at + bytes > n) break;
        const struct layout_copy *c = kind == KIND_MEMCPY   ? l->memcpy_
                                      : kind == KIND_MEMSET ? l->memset_
                                                            : l->peer;
        bool is_kernel = kind == KIND_CONCURRENT_KERNEL;
        uint64_t by = shift_of(field_u32(p + at, is_kernel ? l->kernel->correlation : c->correlation));
        size_t start = is_kernel ? l->kernel->start : c->start, end = is_kernel ? l->kernel->end : c->end;
        put64(p + at, start, field_u64(p + at, (uint16_t)start) + by);
        put64(p + at, end, field_u64(p + at, (uint16_t)end) + by);
        if (is_kernel) {
            const char *name = text_at(field_u64(p + at, l->kernel->name));
            put(p + at, l->kernel->name, &name, sizeof name);
        }
        kernels += is_kernel;
        append(p + at, bytes);
        at += bytes;
    }
    return kernels;
}

/* Two passes: texts and calls, then buffers. */
static long replay(FILE *f) {
    uint32_t head[2];
    long kernels = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint32_t v;
        if (fseek(f, 8, SEEK_SET) != 0 || fread(head, sizeof head, 1, f) != 1) return -1;
        v = head[0];
        while (fread(head, sizeof head, 1, f) == 1) {
            uint8_t *p = malloc(head[1] + 1u);
            if (fread(p, 1, head[1], f) != head[1]) {
                free(p);
                break;
            }
            if (pass == 0 && head[0] == RAW_TEXT && head[1] >= 8) add_text(p, head[1]);
            if (pass == 0 && head[0] == RAW_CALL && head[1] == sizeof(struct raw_call)) {
                tape_calls = grown(tape_calls, ncalls + 1, sizeof *tape_calls);
                memcpy(&tape_calls[ncalls++], p, sizeof *tape_calls);
            }
            if (pass == 1 && head[0] == RAW_BUFFER && layout_find(v))
                kernels += replay_buffer(layout_find(v), p, head[1]);
            free(p);
        }
        if (pass == 0) replay_calls();
    }
    return kernels;
}

EXPORT long mock_tape(const char *path);
long mock_tape(const char *path) {
    FILE *f = fopen(path, "rb");
    char magic[8];
    long kernels = -1;
    if (f && fread(magic, 8, 1, f) == 1 && memcmp(magic, "IPTAPE1\n", 8) == 0) kernels = replay(f);
    if (f) fclose(f);
    return kernels;
}
