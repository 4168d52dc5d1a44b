#include "collect/callbacks.h"

#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "base/util.h"
#include "collect/attach.h"
#include "collect/call_clock.h"
#include "collect/calls.h"
#include "collect/cupti.h"
#include "collect/devices.h"
#include "collect/output.h"
#include "collect/raw.h"
#include "collect/records.h"
#include "collect/thread.h"

#define PASSED_SHARE 16u /* a power of two */

static void *subscriber;

static uint32_t stream_of(const struct cupti_callback_data *d) {
    void *stream;
    uint32_t id = 0;
    if (!d->params || !cupti.stream_id || !attach_enter()) return 0; /* another thread may make CUPTI leave */
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
    thread_add(&t->calls, 1);
    thread_put(t, (struct trace_launch){ .start_ns = c.start_ns,
                                         .end_ns = c.end_ns,
                                         .correlation = call_clock_id(c.d->correlation),
                                         .thread = t->tid,
                                         .api = c.id });
}

__attribute__((cold, noinline)) static void put_other(struct thread_state *t, struct call c) {
    enum call_class class = call_class(c.id);
    if (call_is_work(class))
        put_launch(t, c);
    else if (class != CALL_NONE)
        put_sync(t, class, &c);
}

__attribute__((cold, noinline)) static void to_tape(const struct thread_state *t, struct call c) {
    raw_call(&(struct raw_call){ DOMAIN_DRIVER, c.id, c.d->correlation, t->tid, c.start_ns, c.end_ns,
                                 (uint64_t)(uintptr_t)c.d->function });
}

/* What a launch costs is spent between here and the end of on_callback(): the program's own work has
 * thrown this out of the caches since the last one, so what counts is how little code and how few cache
 * lines it needs. No locked instruction; what is rare is kept out of the way. */
static bool are_wanted(unsigned how) {
    return atomic_load_explicit(&call_clock.wanted, memory_order_relaxed) & how;
}

/* Calls that pass while no window is open are counted by one in PASSED_SHARE, chosen by a hash of its id,
 * and by the very first: for the others nothing else is touched. */
static bool stands_for_others(uint32_t correlation) {
    return correlation * 2654435769u / (UINT32_MAX / PASSED_SHARE + 1) == 0;
}

__attribute__((cold, noinline)) static void count_passed(void) {
    struct thread_state *t = thread_self();
    if (t) thread_add(&t->passed, PASSED_SHARE);
    atomic_fetch_and(&call_clock.wanted, ~(unsigned)CALLS_FIRST);
}

__attribute__((cold, noinline)) static void tell_end(uint32_t id, const struct cupti_callback_data *d) {
    enum call_class class = call_class(id);
    if (call_launches_graph(id)) attach_saw_graph();
    if (class == CALL_SYNC_STREAM) attach_saw_wait(d->context_uid, stream_of(d));
    if (class == CALL_SYNC_CONTEXT) attach_saw_wait(d->context_uid, DEVICES_ALL_STREAMS);
}

/* CUPTI carries the time of the beginning to the end of the call; 0: it is not recorded. */
static void on_enter(const struct cupti_callback_data *d) {
    uint64_t now = 0;
    if (are_wanted(CALLS_RECORDED)) {
        now = call_clock_ns();
        records_note_call(d->correlation, now);
    }
    *d->correlation_data = now;
}

/* A call that was under way when its callback was switched on has no beginning, and is left out. */
static void on_exit_of_call(uint32_t id, const struct cupti_callback_data *d) {
    uint64_t start_ns = *d->correlation_data;
    if (!start_ns || !records_has_call(d->correlation)) {
        if (stands_for_others(d->correlation) || are_wanted(CALLS_FIRST)) count_passed();
        if (are_wanted(CALLS_TOLD)) tell_end(id, d);
        return;
    }
    struct thread_state *t = thread_self();
    if (!t) return;
    uint64_t now = call_clock_ns();
    struct call c = { id, start_ns, MAX(now, start_ns), d };
    if (call_launches_kernel(id))
        put_launch(t, c);
    else
        put_other(t, c);
    if (are_wanted(CALLS_TAPED)) to_tape(t, c);
}

static void on_callback(void *user, int domain, uint32_t id, const void *data) {
    const struct cupti_callback_data *d = data;
    (void)user;
    if (domain != DOMAIN_DRIVER)
        devices_wanted(); /* a context was made */
    else if (d->correlation_data && d->site == SITE_ENTER)
        on_enter(d);
    else if (d->correlation_data)
        on_exit_of_call(id, d);
}

/* ---- who else could be holding CUPTI */
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
            return i + 1 < COUNTOF(tools); /* torch is named only if nothing surer is there */
        }
    return 0;
}

bool callbacks_start(void) {
    if (raw_on()) atomic_fetch_or(&call_clock.wanted, CALLS_TAPED);
    int rc = cupti.subscribe(&subscriber, on_callback, NULL);
    const char *tool = NULL;
    if (rc == CUPTI_E_MULTIPLE_SUBSCRIBERS) {
        dl_iterate_phdr(find_tool, &tool);
        problem("no %skernels were recorded: CUPTI allows one user a process and %s has it; run the program "
                "without that "
                "tool. NVTX ranges were recorded",
                attach_times_left() ? "more " : "", tool ? tool : "another tool in this process");
        return false;
    }
    if (rc != CUPTI_OK) {
        problem("launches were not recorded: CUPTI refuses callbacks (%s)", cupti_error(rc));
        subscriber = NULL;
        return true; /* kernels may still come */
    }
    cupti.enable_callback(1, subscriber, DOMAIN_RESOURCE, RESOURCE_CONTEXT_CREATED);
    cupti.enable_callback(1, subscriber, DOMAIN_RESOURCE, RESOURCE_CU_INIT_FINISHED);
    return true;
}

static bool wants(enum call_class class) {
    if (class == CALL_NONE || settings.empty) return false;
    if (call_is_work(class)) return settings.launches;
    bool tells = class == CALL_SYNC_STREAM || class == CALL_SYNC_CONTEXT;
    return settings.syncs || (tells && attach_wants_waits());
}

static bool is_on[CALLS_MAX_ID];

static void switch_callbacks(bool on) {
    for (uint32_t id = 0; subscriber && id < CALLS_MAX_ID; id++) {
        bool want = on && wants(call_class(id));
        if (want != is_on[id]) cupti.enable_callback(want, subscriber, DOMAIN_DRIVER, id);
        is_on[id] = want;
    }
}

/* Once on they stay on, and return at once outside of windows: switched off while a thread is in a call,
 * CUPTI 13.0.1 gives the kernels that follow the correlation ids of earlier launches. */
void callbacks_watch(void) { switch_callbacks(true); }

void callbacks_capture(bool on) {
    if (on && !settings.passing)
        atomic_fetch_or(&call_clock.wanted, CALLS_RECORDED);
    else
        atomic_fetch_and(&call_clock.wanted, ~(unsigned)CALLS_RECORDED);
}

void callbacks_park(void) {
    callbacks_capture(false);
    switch_callbacks(false);
}

void callbacks_tell_ends(bool yes) {
    if (yes)
        atomic_fetch_or(&call_clock.wanted, CALLS_TOLD);
    else
        atomic_fetch_and(&call_clock.wanted, ~(unsigned)CALLS_TOLD);
}

void callbacks_gone(void) {
    subscriber = NULL;
    memset(is_on, 0, sizeof is_on);
}
