#include "collect/nccl.h"

#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "collect/host.h"
#include "collect/inject.h"
#include "collect/nccl_read.h"
#include "collect/output.h"
#include "collect/thread.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- events */

static void *start_operation(void *context, struct nccl_comm *c, uint64_t type, const void *d) {
    size_t at;
    struct nccl_operation *o = nccl_operation_take(&at);
    if (!o) {
        output_lost(TRACE_COLLECTIVE, TRACE_LOST_SOURCE, 1);
        return NULL;
    }
    struct trace_writer *w = output_take();
    struct trace_collective *r = &o->r;
    *r = trace_collective_unknown(clock_wall_ns());
    r->thread = thread_id();
    nccl_read_operation(w, c, type, d, r);
    nccl_call_take((const void *)(uintptr_t)nccl_read_u64(d, c->layout->parent, 0), r);
    if (w) output_give();
    bool has_kernels = c->layout->channel_id != NCCL_ABSENT && type != NCCL_EVENT_CE_COLL;
    o->comm = context;
    o->stopped = false;
    o->gpu_times = c->layout->channel_timer != NCCL_ABSENT;
    o->first_ns = o->last_ns = 0;
    o->open = o->done = 0;
    /* If the number of channels is unknown, the operation waits for one channel. */
    o->want = !has_kernels ? 0 : r->channels == TRACE_UNKNOWN_U32 ? 1 : r->channels;
    void *handle = nccl_handle_make(NCCL_HANDLE_OPERATION, 0, at, nccl_row_renew(&o->row));
    nccl_row_unlock(&o->row);
    return handle;
}

/* A kernel has started its work on one channel of the parent operation. */
static void *start_channel(struct nccl_comm *c, const void *d) {
    const struct nccl_layout *l = c->layout;
    const void *parent = (const void *)(uintptr_t)nccl_read_u64(d, l->parent, 0);
    uint64_t now = clock_wall_ns(), gpu_ns = nccl_read_u64(d, l->channel_timer, 0);
    struct nccl_operation *o = nccl_operation_lock(parent, NCCL_HANDLE_OPERATION);
    if (!o) return NULL;
    o->open++;
    uint64_t at_ns = o->gpu_times ? gpu_ns : now;
    if (at_ns && (!o->first_ns || at_ns < o->first_ns)) o->first_ns = at_ns;
    if (o->gpu_times && gpu_ns) nccl_clock_add(&c->gpu, gpu_ns, now);
    void *handle = nccl_handle_make(NCCL_HANDLE_CHANNEL, nccl_read_byte(d, l->channel_id),
                                    nccl_handle_row(parent), nccl_handle_generation(parent));
    nccl_row_unlock(&o->row);
    return handle;
}

static void *start_event(void *context, const void *d) {
    struct nccl_comm *c = nccl_comm_find(context);
    void *handle = NULL;
    if (!c) return NULL;
    uint64_t type = nccl_read_type(c->layout, d);
    switch (type) {
    case NCCL_EVENT_COLL:
    case NCCL_EVENT_P2P: handle = start_operation(context, c, type, d); break;
    case NCCL_EVENT_CE_COLL:
        if (c->layout->ce_function != NCCL_ABSENT) handle = start_operation(context, c, type, d);
        break;
    case NCCL_EVENT_KERNEL_CHANNEL:
        if (c->layout->channel_id != NCCL_ABSENT) handle = start_channel(c, d);
        break;
    case NCCL_EVENT_COLL_API:
        if (c->layout->coll_api_captured != NCCL_ABSENT)
            handle = nccl_call_start(nccl_read_byte(d, c->layout->coll_api_captured) == 1);
        break;
    case NCCL_EVENT_P2P_API:
        if (c->layout->p2p_api_captured != NCCL_ABSENT)
            handle = nccl_call_start(nccl_read_byte(d, c->layout->p2p_api_captured) == 1);
        break;
    default: break; /* groups, newer events */
    }
    return handle;
}

static void stop_operation(const void *handle) {
    struct nccl_operation *o = nccl_operation_lock(handle, NCCL_HANDLE_OPERATION);
    if (!o) return;
    if (!o->stopped) {
        o->stopped = true;
        o->r.end_ns = MAX(clock_wall_ns(), o->r.start_ns);
        nccl_operation_settle(o);
    }
    nccl_row_unlock(&o->row);
}

static void stop_channel(const void *handle) {
    struct nccl_operation *o = nccl_operation_lock(handle, NCCL_HANDLE_CHANNEL);
    if (!o) return;
    if (o->open) {
        o->open--;
        o->done++;
        if (!o->gpu_times) o->last_ns = MAX(o->last_ns, clock_wall_ns());
        nccl_operation_settle(o);
    }
    nccl_row_unlock(&o->row);
}

/* NCCL reports the GPU's time at the end of a channel's work, before it stops the channel's event. */
static void channel_ended(const void *handle, const void *args) {
    struct nccl_operation *o = nccl_operation_lock(handle, NCCL_HANDLE_CHANNEL);
    uint64_t gpu_ns, now = clock_wall_ns();
    if (!o) return;
    memcpy(&gpu_ns, args, sizeof gpu_ns);
    void *comm = o->comm;
    bool valid = o->gpu_times && gpu_ns;
    if (valid) o->last_ns = MAX(o->last_ns, gpu_ns);
    nccl_row_unlock(&o->row);
    struct nccl_comm *c = valid ? nccl_comm_find(comm) : NULL;
    if (c) nccl_clock_add(&c->gpu, gpu_ns, now);
}

/* ---- functions called by NCCL */

static int on_init(unsigned version, void **context, int *mask, const char *name, uint64_t hash, int nodes,
                   int ranks, int rank) {
    int saved_errno;
    if (!context || !mask) return NCCL_INTERNAL_ERROR;
    *context = NULL;
    if (!host_enter(&saved_errno)) return NCCL_INTERNAL_ERROR;
    const struct nccl_layout *l = nccl_layout(version);
    void *handle = inject_start() ? nccl_comm_open(version, name, hash, nodes, ranks, rank) : NULL;
    if (handle) {
        int events = NCCL_EVENT_COLL | NCCL_EVENT_P2P;
        if (l->channel_id != NCCL_ABSENT) events |= NCCL_EVENT_KERNEL_CHANNEL;
        if (l->coll_api_captured != NCCL_ABSENT) events |= NCCL_EVENT_COLL_API | NCCL_EVENT_P2P_API;
        if (l->ce_function != NCCL_ABSENT) events |= NCCL_EVENT_CE_COLL;
        *context = handle;
        *mask = events;
    }
    host_leave(saved_errno);
    return handle ? NCCL_SUCCESS : NCCL_INTERNAL_ERROR;
}

static int on_start(void *context, void **event, void *descriptor) {
    int saved_errno;
    if (event) *event = NULL;
    if (!event || !descriptor || !context || !nccl_tables_exist() || !host_enter(&saved_errno))
        return NCCL_SUCCESS;
    *event = start_event(context, descriptor);
    host_leave(saved_errno);
    return NCCL_SUCCESS;
}

static int on_stop(void *event) {
    int saved_errno;
    if (!event || !nccl_tables_exist() || !host_enter(&saved_errno)) return NCCL_SUCCESS;
    stop_operation(event);
    stop_channel(event);
    host_leave(saved_errno);
    return NCCL_SUCCESS;
}

static int on_state(void *event, int state, void *args) {
    int saved_errno;
    if (state != NCCL_STATE_KERNEL_CHANNEL_STOP || !event || !args) return NCCL_SUCCESS;
    if (!nccl_tables_exist() || !host_enter(&saved_errno)) return NCCL_SUCCESS;
    channel_ended(event, args);
    host_leave(saved_errno);
    return NCCL_SUCCESS;
}

static int on_finalize(void *context) {
    int saved_errno;
    if (!context || !nccl_tables_exist() || !host_enter(&saved_errno)) return NCCL_SUCCESS;
    nccl_operations_finish(context);
    nccl_comm_close(context);
    host_leave(saved_errno);
    return NCCL_SUCCESS;
}

/* Versions 2 and 3 pass the communicator's name and hash with each event, not in init(). */
static int init_v2(void **context, int *mask) {
    return on_init(2, context, mask, NULL, TRACE_UNKNOWN_U64, -1, -1, -1);
}
static int init_v3(void **context, int *mask) {
    return on_init(3, context, mask, NULL, TRACE_UNKNOWN_U64, -1, -1, -1);
}
static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank,
                   nccl_log *log) {
    (void)log;
    return on_init(4, context, mask, name, hash, nodes, ranks, rank);
}
static int init_v5(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks, int rank,
                   nccl_log *log) {
    (void)log;
    return on_init(5, context, mask, name, hash, nodes, ranks, rank);
}
static int init_v6(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks, int rank,
                   nccl_log *log) {
    (void)log;
    return on_init(6, context, mask, name, hash, nodes, ranks, rank);
}

static int init_v7(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks, int rank,
                   nccl_log *log) {
    (void)log;
    return on_init(7, context, mask, name, hash, nodes, ranks, rank);
}

#define PLUGIN(version, type)                                                                \
    EXPORT extern struct nccl_profiler_v##type ncclProfiler_v##version;                      \
    EXPORT struct nccl_profiler_v##type ncclProfiler_v##version = { .name = "inferprof",     \
                                                                    .init = init_v##version, \
                                                                    .start = on_start,       \
                                                                    .stop = on_stop,         \
                                                                    .state = on_state,       \
                                                                    .finalize = on_finalize };
PLUGIN(2, 2)
PLUGIN(3, 2)
PLUGIN(4, 4)
PLUGIN(5, 5)
PLUGIN(6, 5)
PLUGIN(7, 7)

void nccl_finish(void) {
    if (nccl_tables_exist()) nccl_operations_finish(NULL);
}

void nccl_after_fork(void) { nccl_tables_after_fork(); }
