#include "collect/callbacks.h"

#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "collect/activity.h"
#include "collect/calls.h"
#include "collect/cupti.h"
#include "collect/devices.h"
#include "collect/output.h"
#include "collect/raw.h"
#include "collect/thread.h"

static void *subscriber;
static uint8_t class_of[2][CALLS_MAX_ID];           /* [domain - 1][callback id], enum call_class */
static _Atomic uint64_t api_names[2][CALLS_MAX_ID]; /* generation << 32 | number of the string */
static atomic_bool capturing;

/* The name's number in the open file, remembered a call; 0: nothing is open. */
static uint32_t api_name(int domain, uint32_t id, const char *function) {
    _Atomic uint64_t *slot = &api_names[domain - 1][id];
    uint64_t v = atomic_load_explicit(slot, memory_order_relaxed), generation = output_generation();
    if (v >> 32 == generation) return (uint32_t)v;
    struct trace_writer *w = output_take();
    if (!w) return 0;
    uint32_t name = trace_writer_str(w, function);
    output_give();
    atomic_store_explicit(slot, generation << 32 | name, memory_order_relaxed);
    return name;
}

static uint32_t stream_of(const struct cupti_callback_data *d) {
    void *stream;
    uint32_t id = 0;
    if (!d->params || !cupti.stream_id) return 0;
    memcpy(&stream, d->params, sizeof stream);
    return cupti.stream_id(d->context, stream, 0, &id) == CUPTI_OK ? id : 0;
}

static void put_sync(const struct thread_state *t, enum call_class class, const struct cupti_callback_data *d,
                     uint64_t end_ns) {
    static const uint32_t kinds[] = { [CALL_SYNC_STREAM] = TRACE_SYNC_STREAM,
                                      [CALL_SYNC_EVENT] = TRACE_SYNC_EVENT,
                                      [CALL_SYNC_WAIT] = TRACE_SYNC_STREAM_WAIT,
                                      [CALL_SYNC_CONTEXT] = TRACE_SYNC_CONTEXT };
    struct trace_sync s = {
        .start_ns = t->call_start_ns,
        .end_ns = MAX(end_ns, t->call_start_ns),
        .correlation = d->correlation,
        .thread = t->tid,
        .sync_kind = kinds[class],
        .context = d->context_uid,
        .stream = class == CALL_SYNC_STREAM || class == CALL_SYNC_WAIT ? stream_of(d) : 0,
    };
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_sync(w, &s, 1);
    output_give();
}

static void put_launch(struct thread_state *t, int domain, uint32_t id, const struct cupti_callback_data *d,
                       uint64_t end_ns) {
    struct trace_launch l = {
        .start_ns = t->call_start_ns,
        .end_ns = MAX(end_ns, t->call_start_ns),
        .correlation = d->correlation,
        .thread = t->tid,
        .api = api_name(domain, id, d->function),
    };
    thread_put_launch(t, &l);
}

static void on_exit_of_call(struct thread_state *t, int domain, uint32_t id,
                            const struct cupti_callback_data *d) {
    enum call_class class = class_of[domain - 1][id];
    uint64_t now = clock_wall_ns();
    if (class == CALL_LAUNCH || class == CALL_COPY) {
        if (settings.launches) put_launch(t, domain, id, d, now);
    } else if (settings.syncs) {
        put_sync(t, class, d, now);
    }
    if (raw_on())
        raw_call(&(struct raw_call){ (uint32_t)domain, id, d->correlation, t->tid, t->call_start_ns, now,
                                     (uint64_t)(uintptr_t)d->function });
}

/* Callbacks stay on for the whole run, also between windows: CUPTI gives a call its correlation id when it is entered
 * and takes it back when it is left, and a call that is switched off in between keeps its id for all that follow
 * (seen with CUPTI 13.0.1: one id for every later launch of the thread). Between windows they return at once. */
static void on_call(int domain, uint32_t id, const struct cupti_callback_data *d) {
    struct thread_state *t = id < CALLS_MAX_ID && class_of[domain - 1][id] ? thread_self() : NULL;
    uint32_t call_id = (uint32_t)domain << 16 | id;
    if (!t) return;
    if (d->site == SITE_ENTER) {
        if (t->depth++ > 0) return; /* the driver's side of a runtime call: the same launch */
        t->wanted = atomic_load_explicit(&capturing, memory_order_relaxed);
        if (!t->wanted) return;
        t->call_start_ns = clock_wall_ns();
        t->call_correlation = d->correlation;
        t->call_id = call_id;
        activity_note_call(d->correlation, t->call_start_ns);
    } else if (t->depth > 0 && --t->depth == 0 && t->wanted) {
        if (t->call_id == call_id && t->call_correlation == d->correlation) on_exit_of_call(t, domain, id, d);
    }
}

static void on_callback(void *user, int domain, uint32_t id, const void *data) {
    (void)user;
    if (domain == DOMAIN_RESOURCE)
        devices_wanted();
    else if (domain == DOMAIN_RUNTIME || domain == DOMAIN_DRIVER)
        on_call(domain, id, data);
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
        { "libtorch_cpu", "PyTorch's profiler (torch.profiler)" },
    };
    (void)size;
    for (size_t i = 0; info->dlpi_name && i < COUNTOF(tools); i++)
        if (strstr(info->dlpi_name, tools[i][0])) {
            *(const char **)found = tools[i][1];
            return i + 1 < COUNTOF(tools); /* torch is named only if nothing surer is there */
        }
    return 0;
}

static bool wants(enum call_class class) {
    return class == CALL_LAUNCH || class == CALL_COPY ? settings.launches : settings.syncs;
}

static void enable_calls(void) {
    unsigned n;
    const struct call *c = calls_all(&n);
    for (unsigned i = 0; i < n; i++)
        if (wants(c[i].class)) cupti.enable_callback(1, subscriber, c[i].domain, c[i].id);
}

bool callbacks_start(void) {
    int rc = cupti.subscribe(&subscriber, on_callback, NULL);
    unsigned n;
    const struct call *c = calls_all(&n);
    const char *tool = NULL;
    if (rc == CUPTI_E_MULTIPLE_SUBSCRIBERS) {
        dl_iterate_phdr(find_tool, &tool);
        problem(
            "no kernels were recorded: CUPTI allows one user a process and %s has it; run the program without that "
            "tool. NVTX ranges were recorded",
            tool ? tool : "another tool in this process");
        return false;
    }
    if (rc != CUPTI_OK) {
        problem("launches were not recorded: CUPTI refuses callbacks (%s)", cupti_error(rc));
        subscriber = NULL;
        return true; /* kernels may still come */
    }
    for (unsigned i = 0; i < n; i++) class_of[c[i].domain - 1][c[i].id] = c[i].class;
    cupti.enable_callback(1, subscriber, DOMAIN_RESOURCE, RESOURCE_CONTEXT_CREATED);
    cupti.enable_callback(1, subscriber, DOMAIN_RESOURCE, RESOURCE_CU_INIT_FINISHED);
    enable_calls();
    return true;
}

void callbacks_capture(bool on) { atomic_store(&capturing, on); }
