#include "collect/callbacks.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "collect/attach.h"
#include "collect/call_clock.h"
#include "collect/calls.h"
#include "collect/cupti.h"
#include "collect/devices.h"
#include "collect/host.h"
#include "collect/output.h"
#include "collect/raw.h"
#include "collect/records.h"
#include "collect/replays.h"
#include "collect/thread.h"

#define UNRECORDED_SHARE 16u /* one unrecorded call in this many is counted */

static void *subscriber;

static uint32_t stream_of(const struct cupti_callback_data *d) {
    void *stream;
    uint32_t id = 0;
    /* Another thread may detach CUPTI at any time. */
    if (!d->params || !cupti.stream_id || !attach_enter()) return 0;
    memcpy(&stream, d->params, sizeof stream);
    if (cupti.stream_id(d->context, stream, 0, &id) != CUPTI_OK) id = 0;
    attach_exit();
    return id;
}

struct call {
    uint32_t id;
    uint64_t start_ns, end_ns;
    const struct cupti_callback_data *d;
};

static void put_sync(const struct thread_state *t, enum call_class class, const struct call *c) {
    const struct cupti_callback_data *d = c->d;
    static const uint32_t kinds[] = { [CALL_SYNC_STREAM] = TRACE_SYNC_STREAM,
                                      [CALL_SYNC_EVENT] = TRACE_SYNC_EVENT,
                                      [CALL_SYNC_WAIT] = TRACE_SYNC_STREAM_WAIT,
                                      [CALL_SYNC_CONTEXT] = TRACE_SYNC_CONTEXT };
    struct trace_sync s = {
        .start_ns = c->start_ns,
        .end_ns = c->end_ns,
        .correlation = call_clock_id(d->correlation),
        .thread = t->tid,
        .sync_kind = kinds[class],
        .context = d->context_uid,
        .stream = class == CALL_SYNC_STREAM || class == CALL_SYNC_WAIT ? stream_of(d) : 0,
    };
    struct trace_writer *w = settings.syncs ? output_take() : NULL;
    if (!w) return;
    trace_writer_sync(w, &s, 1);
    output_give();
}

static inline void put_launch(struct thread_state *t, struct call c) {
    thread_counter_add(&t->calls, 1);
    thread_add_launch(t, (struct trace_launch){ .start_ns = c.start_ns,
                                                .end_ns = c.end_ns,
                                                .correlation = call_clock_id(c.d->correlation),
                                                .thread = t->tid,
                                                .api = c.id });
}

__attribute__((cold, noinline)) static void put_other_call(struct thread_state *t, struct call c) {
    enum call_class class = call_class(c.id);
    int saved_errno = errno;
    if (call_submits_work(class))
        put_launch(t, c);
    else if (call_waits(class))
        put_sync(t, class, &c);
    if (replays_are_sampled()) replays_recorded_call_ended(t, c.id, c.d);
    errno = saved_errno;
}

__attribute__((cold, noinline)) static void write_tape(const struct thread_state *t, struct call c) {
    int saved_errno = errno;
    raw_call(&(struct raw_call){ DOMAIN_DRIVER, c.id, c.d->correlation, t->tid, c.start_ns, c.end_ns,
                                 (uint64_t)(uintptr_t)c.d->function });
    errno = saved_errno;
}

/* ---- The code from here to on_callback() runs in every launch, usually with cold caches. Its overhead
 * therefore depends on its size and on the number of cache lines that it uses. It has no locked instructions;
 * rare cases are in cold functions. */
static bool has_flag(enum call_flags flag) {
    return atomic_load_explicit(&call_clock.flags, memory_order_relaxed) & flag;
}

/* Selects one call in UNRECORDED_SHARE by a hash of its id. Only the selected calls are counted, so the other
 * calls access no further memory. */
static bool is_counted_sample(uint32_t correlation) {
    return correlation * 2654435769u / (UINT32_MAX / UNRECORDED_SHARE + 1) == 0;
}

__attribute__((cold, noinline)) static void count_unrecorded(void) {
    int saved_errno;
    if (!host_enter(&saved_errno)) return;
    struct thread_state *t = thread_self();
    if (t) thread_counter_add(&t->unrecorded, UNRECORDED_SHARE);
    atomic_fetch_and(&call_clock.flags, ~(unsigned)CALLS_COUNT_FIRST);
    host_leave(saved_errno);
}

__attribute__((cold, noinline)) static void report_end(uint32_t id, const struct cupti_callback_data *d) {
    enum call_class class = call_class(id);
    int saved_errno;
    if (!host_enter(&saved_errno)) return;
    if (call_launches_graph(id)) attach_note_graph_launch();
    if (class == CALL_SYNC_STREAM) attach_try_detach(d->context_uid, stream_of(d));
    if (class == CALL_SYNC_CONTEXT) attach_try_detach(d->context_uid, DEVICES_ALL_STREAMS);
    host_leave(saved_errno);
}

/* Used while kernel records are disabled because enough replays were recorded (replays.h). */
__attribute__((cold, noinline)) static void report_start(uint32_t id, const struct cupti_callback_data *d) {
    int saved_errno;
    if (!host_enter(&saved_errno)) return;
    replays_call_starts(id, d);
    host_leave(saved_errno);
}

__attribute__((cold, noinline)) static void report_unrecorded(uint32_t id,
                                                              const struct cupti_callback_data *d) {
    int saved_errno;
    if (!host_enter(&saved_errno)) return;
    struct thread_state *t = thread_self();
    if (t) replays_call_ended(t, id, d, *d->correlation_data);
    host_leave(saved_errno);
}

/* CUPTI keeps *correlation_data until the end of the call. It is set to the start time, or to 0 if the call
 * is neither recorded nor reported to replays.h. Recording the start takes no lock and uses no thread state,
 * because a signal handler may interrupt it and make CUDA calls. */
static void on_call_enter(uint32_t id, const struct cupti_callback_data *d) {
    uint64_t now = 0;
    if (has_flag(CALLS_COUNTED)) {
        now = call_clock_ns();
        report_start(id, d);
    }
    if (has_flag(CALLS_RECORDED)) {
        now = call_clock_ns();
        records_note_call(d->correlation, now);
    }
    *d->correlation_data = now;
}

static void put_call(struct thread_state *t, uint32_t id, const struct cupti_callback_data *d) {
    uint64_t now = call_clock_ns(), start_ns = *d->correlation_data;
    struct call c = { id, start_ns, MAX(now, start_ns), d };
    if (call_launches_kernel(id))
        put_launch(t, c);
    else
        put_other_call(t, c);
    if (has_flag(CALLS_TAPED) && call_class(id) < CALL_GRAPH_MADE) write_tape(t, c);
}

/* Counts a launch or copy as lost. A signal handler that interrupted our code made this call (host.h). */
__attribute__((cold, noinline)) static void refuse_call(uint32_t id) {
    if (call_submits_work(call_class(id))) output_lost(TRACE_LAUNCH, TRACE_LOST_MEMORY, 1);
}

/* A call that was in progress when its callback was enabled has no start time and is not recorded. noinline,
 * so that the code for the start of a call saves no registers. */
__attribute__((noinline)) static void on_call_exit(uint32_t id, const struct cupti_callback_data *d) {
    if (!*d->correlation_data || !records_has_call(d->correlation)) {
        if (is_counted_sample(d->correlation) || has_flag(CALLS_COUNT_FIRST)) count_unrecorded();
        if (has_flag(CALLS_REPORTED)) report_end(id, d);
        if (has_flag(CALLS_COUNTED)) report_unrecorded(id, d);
        return;
    }
    struct host_thread *h = &host_thread;
    /* Without this, compilers look up the thread-local variable again after each call. */
    __asm__("" : "+r"(h));
    if (__builtin_expect(h->depth != 0, 0)) {
        refuse_call(id);
        return;
    }
    h->depth = 1;
    atomic_signal_fence(memory_order_seq_cst);
    struct thread_state *t = h->state ? h->state : thread_register();
    if (t) put_call(t, id, d);
    atomic_signal_fence(memory_order_seq_cst);
    h->depth = 0;
}

/* ---- allocations: recorded outside of windows too, so that the total is right */

static uint32_t device_of(const struct cupti_callback_data *d) {
    uint32_t id = 0;
    if (!cupti.device_id || !attach_enter()) return 0;
    if (cupti.device_id(d->context, &id) != CUPTI_OK) id = 0;
    attach_exit();
    return id;
}

/* The parameters of all allocating calls begin with these two members. */
struct alloc_params {
    const uint64_t *address;
    uint64_t bytes;
};

static bool read_allocation(enum call_class class, const struct cupti_callback_data *d,
                            struct trace_memory *out) {
    struct alloc_params p;
    if (!d->params) return false;
    if (class == CALL_FREE) {
        memcpy(&out->address, d->params, sizeof out->address);
        out->action = TRACE_MEMORY_FREE;
        return out->address != 0;
    }
    memcpy(&p, d->params, sizeof p);
    if (!p.address) return false;
    out->address = *p.address;
    out->bytes = p.bytes;
    out->action = TRACE_MEMORY_ALLOC;
    return true;
}

static bool succeeded(const struct cupti_callback_data *d) {
    int32_t result = 0;
    if (d->result) memcpy(&result, d->result, sizeof result);
    return result == 0;
}

__attribute__((cold, noinline)) static void put_allocation(uint32_t id, enum call_class class,
                                                           const struct cupti_callback_data *d) {
    int saved_errno;
    struct trace_memory m = { .time_ns = clock_wall_ns() };
    if (!succeeded(d) || !read_allocation(class, d, &m) || !host_enter(&saved_errno)) return;
    struct trace_writer *w = output_take();
    if (w) {
        m.device = device_of(d);
        m.thread = thread_id();
        m.allocator = trace_writer_str(w, call_name(id));
        trace_writer_memory(w, &m, 1);
        output_give();
    } else {
        output_lost(TRACE_MEMORY, TRACE_LOST_MEMORY, 1);
    }
    host_leave(saved_errno);
}

/* Returns false if the call does not allocate or free device memory. */
__attribute__((cold, noinline)) static bool on_memory_call(uint32_t id, const struct cupti_callback_data *d) {
    enum call_class class = call_class(id);
    if (!call_changes_memory(class)) return false;
    if (d->site == SITE_EXIT) put_allocation(id, class, d);
    return true;
}

static void on_callback(void *user, int domain, uint32_t id, const void *data) {
    const struct cupti_callback_data *d = data;
    (void)user;
    if (domain != DOMAIN_DRIVER) {
        devices_request(); /* CUDA initialised, or context created */
        return;
    }
    if (has_flag(CALLS_ALLOCATIONS) && on_memory_call(id, d)) return;
    if (!d->correlation_data) return;
    if (d->site == SITE_ENTER)
        on_call_enter(id, d);
    else
        on_call_exit(id, d);
}

/* ---- the tool that is subscribed */
static int find_tool(struct dl_phdr_info *info, size_t size, void *found) {
    static const char *const tools[][2] = {
        { "libToolsInjection", "Nsight Systems" },
        { "libcuda-injection", "Nsight Compute" },
        { "libTreeLauncher", "an Nsight tool" },
        { "libproton", "Triton's Proton profiler" },
        { "libparcagpu", "parcagpu" },
        { "libtau", "TAU" },
        { "libscorep", "Score-P" },
        { "libhpcrun", "HPCToolkit" },
        { "libnsys", "Nsight Systems" },
        { "libtorch_cpu", "another tool in this process (torch.profiler?)" },
    };
    (void)size;
    for (size_t i = 0; info->dlpi_name && i < COUNTOF(tools); i++)
        if (strstr(info->dlpi_name, tools[i][0])) {
            *(const char **)found = tools[i][1];
            /* torch_cpu is only a guess: a library found later may match better */
            return i + 1 < COUNTOF(tools);
        }
    return 0;
}

static bool enabled[CALLS_MAX_ID];

static void watch_allocations(void) {
    if (!settings.allocations) return;
    atomic_fetch_or(&call_clock.flags, CALLS_ALLOCATIONS);
    for (uint32_t id = 0; id < CALLS_MAX_ID; id++)
        if (call_changes_memory(call_class(id)))
            enabled[id] = cupti.enable_callback(1, subscriber, DOMAIN_DRIVER, id) == CUPTI_OK;
}

bool callbacks_start(void) {
    if (raw_on()) atomic_fetch_or(&call_clock.flags, CALLS_TAPED);
    int rc = cupti.subscribe(&subscriber, on_callback, NULL);
    const char *tool = NULL;
    if (rc == CUPTI_E_MULTIPLE_SUBSCRIBERS) {
        dl_iterate_phdr(find_tool, &tool);
        report_problem("no %skernels were recorded: CUPTI allows one subscriber per process, and %s is "
                       "subscribed; run the program without that tool. NVTX ranges were recorded",
                       attach_detach_count() ? "more " : "", tool ? tool : "another tool in this process");
        return false;
    }
    if (rc != CUPTI_OK) {
        report_problem("launches were not recorded: cuptiSubscribe failed (%s)", cupti_error(rc));
        subscriber = NULL;
        return true; /* kernel records may still work */
    }
    cupti.enable_callback(1, subscriber, DOMAIN_RESOURCE, RESOURCE_CONTEXT_CREATED);
    cupti.enable_callback(1, subscriber, DOMAIN_RESOURCE, RESOURCE_CU_INIT_FINISHED);
    watch_allocations();
    return true;
}

static bool is_watched(enum call_class class) {
    if (class == CALL_NONE || settings.empty) return false;
    if (call_submits_work(class)) return settings.launches;
    if (call_changes_memory(class)) return settings.allocations;
    if (class >= CALL_GRAPH_MADE) return replays_are_sampled();
    bool allows_detach = class == CALL_SYNC_STREAM || class == CALL_SYNC_CONTEXT;
    return settings.syncs || (allows_detach && attach_needs_syncs());
}

static void switch_callbacks(bool on) {
    for (uint32_t id = 0; subscriber && id < CALLS_MAX_ID; id++) {
        bool want = on && is_watched(call_class(id));
        if (want != enabled[id]) cupti.enable_callback(want, subscriber, DOMAIN_DRIVER, id);
        enabled[id] = want;
    }
}

/* Callbacks stay enabled; outside of windows they return immediately. If a callback is disabled while a
 * thread is inside its call, CUPTI 13.0.1 gives later kernels the correlation ids of earlier launches. */
void callbacks_watch(void) { switch_callbacks(true); }

void callbacks_capture(bool on) {
    if (on && !settings.passing)
        atomic_fetch_or(&call_clock.flags, CALLS_RECORDED);
    else
        atomic_fetch_and(&call_clock.flags, ~(unsigned)CALLS_RECORDED);
}

void callbacks_disable(void) {
    callbacks_capture(false);
    switch_callbacks(false);
}

void callbacks_report_ends(bool on) {
    if (on)
        atomic_fetch_or(&call_clock.flags, CALLS_REPORTED);
    else
        atomic_fetch_and(&call_clock.flags, ~(unsigned)CALLS_REPORTED);
}

void callbacks_count(bool on) {
    if (on)
        atomic_fetch_or(&call_clock.flags, CALLS_COUNTED);
    else
        atomic_fetch_and(&call_clock.flags, ~(unsigned)CALLS_COUNTED);
}

void callbacks_detached(void) {
    subscriber = NULL;
    memset(enabled, 0, sizeof enabled);
}
