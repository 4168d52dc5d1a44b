#include "collect/nccl.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/util.h"
#include "collect/host.h"
#include "collect/inject.h"
#include "collect/nccl_layout.h"
#include "collect/output.h"
#include "collect/thread.h"

#define EXPORT __attribute__((visibility("default")))
#define COMMS 256       /* maximum number of communicators at the same time */
#define OPERATIONS 4096 /* operations at the same time; the oldest is written unfinished if more are open */
#define CALLS 4096      /* calls of the program that operations can still refer to */
#define PEERS 1024      /* sends to and receives from ranks below this one are counted */
#define SPINS 200       /* tries for a row that another thread uses */
#define YIELDS 100      /* further tries, after which the event is dropped */
#define CLOCK_WINDOW_NS 1000000000u /* the clock of a GPU is compared with ours anew every second */

/* ---- rows and handles */

/* A row that only one thread changes at a time. The generation is odd while the row is in use. */
struct row {
    atomic_flag locked;
    _Atomic uint32_t generation;
};

enum handle_kind { HANDLE_COMM = 1, HANDLE_OPERATION, HANDLE_CHANNEL, HANDLE_CALL };

/* From bit 0 on, a handle has: 1 bit that is set, 3 bits for the kind, 8 for the channel, 16 for the row
 * and 32 for the generation. A handle is odd, and therefore neither NULL nor the address of an object. */
static void *make_handle(enum handle_kind kind, unsigned channel, size_t row, uint32_t generation) {
    return (void *)(uintptr_t)((uint64_t)generation << 28 | (uint64_t)row << 12 | (uint64_t)channel << 4 |
                               (uint64_t)kind << 1 | 1u);
}
static enum handle_kind handle_kind(const void *handle) {
    return (uintptr_t)handle & 1 ? (enum handle_kind)((uintptr_t)handle >> 1 & 7) : 0;
}
static size_t handle_row(const void *handle) { return (uintptr_t)handle >> 12 & 0xffff; }
static uint32_t handle_generation(const void *handle) {
    return (uint32_t)((uint64_t)(uintptr_t)handle >> 28);
}

/* Another thread holds the lock for a microsecond at most, unless it was interrupted. */
static bool lock_row(struct row *r) {
    for (int i = 0; i < SPINS + YIELDS; i++) {
        if (!atomic_flag_test_and_set_explicit(&r->locked, memory_order_acquire)) return true;
        if (i >= SPINS) sched_yield();
    }
    return false;
}
static void unlock_row(struct row *r) { atomic_flag_clear_explicit(&r->locked, memory_order_release); }

/* Starts or ends the use of a row and returns its new generation. Earlier handles of the row become stale. */
static uint32_t renew(struct row *r) { return atomic_fetch_add(&r->generation, 1) + 1; }

static bool is_valid(const void *handle, enum handle_kind kind, const struct row *r) {
    return handle_kind(handle) == kind && handle_generation(handle) & 1 &&
           atomic_load(&r->generation) == handle_generation(handle);
}

/* Locks the row of a handle if the handle is of this kind and still valid. */
static bool lock_handle(const void *handle, enum handle_kind kind, struct row *row_at_handle) {
    if (!is_valid(handle, kind, row_at_handle) || !lock_row(row_at_handle)) return false;
    if (is_valid(handle, kind, row_at_handle)) return true;
    unlock_row(row_at_handle);
    return false;
}

/* ---- tables of communicators, operations and calls */

/* Our clock minus the clock of the communicator's GPU. A time of the GPU reaches us late, never early, so
 * the smallest difference of the current and the previous window is used. */
struct gpu_clock {
    _Atomic uint64_t window_ns;        /* start of the current window; 0: no time yet */
    _Atomic int64_t now_ns, before_ns; /* smallest difference in the current and in the previous window */
};

/* A communicator. Only `gpu`, `sent` and `received` change between init and finalize. */
struct comm {
    struct row row;
    const struct nccl_layout *layout;
    uint64_t hash;
    uint32_t rank, size, nodes; /* TRACE_UNKNOWN_U32: unknown */
    char name[64];
    struct gpu_clock gpu;
    _Atomic uint32_t sent[PEERS], received[PEERS];
};
struct operation {
    struct row row;
    struct trace_collective r; /* texts are string numbers of the open trace file */
    void *comm;
    bool stopped;               /* NCCL has enqueued the operation */
    unsigned open, done, want;  /* channels: running, ended, expected */
    bool gpu_times;             /* first_ns and last_ns are on the clock of the GPU */
    uint64_t first_ns, last_ns; /* first start and last end over the channels; 0: none */
};
/* A call of the program. Operations refer to it after it has returned. Therefore a row is not freed when the
 * call returns, but overwritten by a later call. */
struct call {
    struct row row;
    uint64_t start_ns;
    uint32_t thread;
    bool captured;
};

/* Mapped by the first init, because programs without NCCL do not need these 3 MB. */
struct tables {
    struct comm comms[COMMS];
    struct operation operations[OPERATIONS];
    struct call calls[CALLS];
};
static _Atomic(struct tables *) tables; /* NULL: not mapped yet */
static atomic_uint next_comm;

static struct tables *get_tables(void) { return atomic_load_explicit(&tables, memory_order_acquire); }

static struct tables *map_tables(void) {
    struct tables *now = get_tables();
    if (now) return now;
    void *new = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (new == MAP_FAILED) return NULL;
    if (atomic_compare_exchange_strong(&tables, &now, new)) return new;
    munmap(new, sizeof *now); /* another thread was faster */
    return now;
}

/* ---- communicators */

static void clock_add(struct gpu_clock *g, uint64_t gpu_ns, uint64_t host_ns) {
    int64_t difference = (int64_t)(host_ns - gpu_ns);
    uint64_t window = atomic_load(&g->window_ns);
    if (!window || host_ns - window > CLOCK_WINDOW_NS) {
        atomic_store(&g->before_ns, window ? atomic_load(&g->now_ns) : difference);
        atomic_store(&g->now_ns, difference);
        atomic_store(&g->window_ns, host_ns);
    }
    if (difference < atomic_load(&g->now_ns)) atomic_store(&g->now_ns, difference);
}

static uint64_t clock_to_host(const struct gpu_clock *g, uint64_t gpu_ns) {
    int64_t now = atomic_load(&g->now_ns), before = atomic_load(&g->before_ns);
    return gpu_ns + (uint64_t)MIN(now, before);
}

static uint32_t known(int v) { return v < 0 ? TRACE_UNKNOWN_U32 : (uint32_t)v; }

/* Takes a free row, locked. Returns NULL if all are in use. */
static struct comm *take_comm(struct tables *t, size_t *at) {
    for (unsigned i = 0; i < COMMS; i++) {
        *at = atomic_fetch_add(&next_comm, 1) % COMMS;
        struct comm *c = &t->comms[*at];
        if (atomic_load(&c->row.generation) & 1 || !lock_row(&c->row)) continue;
        if (!(atomic_load(&c->row.generation) & 1)) return c;
        unlock_row(&c->row);
    }
    return NULL;
}

static void *open_comm(unsigned version, const char *name, uint64_t hash, int nodes, int ranks, int rank) {
    size_t at;
    struct tables *t = map_tables();
    struct comm *c = t ? take_comm(t, &at) : NULL;
    if (!c) return NULL;
    c->layout = nccl_layout(version);
    c->hash = hash;
    c->nodes = known(nodes);
    c->size = ranks > 0 ? (uint32_t)ranks : TRACE_UNKNOWN_U32;
    c->rank = known(rank);
    snprintf(c->name, sizeof c->name, "%s", name ? name : "");
    atomic_store(&c->gpu.window_ns, 0);
    for (size_t i = 0; i < PEERS; i++) {
        atomic_store_explicit(&c->sent[i], 0, memory_order_relaxed);
        atomic_store_explicit(&c->received[i], 0, memory_order_relaxed);
    }
    void *handle = make_handle(HANDLE_COMM, 0, at, renew(&c->row));
    unlock_row(&c->row);
    return handle;
}

static struct comm *find_comm(const void *handle) {
    struct comm *c = &get_tables()->comms[handle_row(handle) % COMMS];
    return is_valid(handle, HANDLE_COMM, &c->row) ? c : NULL;
}

/* ---- operations */

static atomic_uint next_operation;

static atomic_uint next_call;

/* Sets the record's kernel times, if they are known. GPU times can be converted only until the communicator
 * is finalized. */
static void set_kernel_times(struct operation *o) {
    if (!o->done || !o->first_ns || o->last_ns < o->first_ns) return;
    if (o->gpu_times) {
        const struct comm *c = find_comm(o->comm);
        if (!c) return;
        o->first_ns = clock_to_host(&c->gpu, o->first_ns);
        o->last_ns = clock_to_host(&c->gpu, o->last_ns);
        o->r.flags |= TRACE_COLLECTIVE_GPU_CLOCK;
    }
    o->r.kernel_start_ns = o->first_ns;
    o->r.kernel_end_ns = o->last_ns;
    o->r.flags |= TRACE_COLLECTIVE_KERNEL_TIMES;
}

/* Writes the operation and frees its row, which the caller has locked. */
static void write_operation(struct operation *o) {
    set_kernel_times(o);
    if (!o->stopped) o->r.flags |= TRACE_COLLECTIVE_OPEN;
    if (!(o->r.flags & TRACE_COLLECTIVE_KERNEL_TIMES))
        o->r.kernel_start_ns = o->r.kernel_end_ns = o->r.start_ns;
    renew(&o->row);
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_collective(w, &o->r, 1);
    output_give();
}

static bool is_complete(const struct operation *o) { return o->stopped && !o->open && o->done >= o->want; }

/* Takes the next row, locked. If an operation still uses the row, it is the oldest one, and is written
 * unfinished. Returns NULL if the row cannot be locked. */
static struct operation *take_operation(size_t *at) {
    *at = atomic_fetch_add(&next_operation, 1) % OPERATIONS;
    struct operation *o = &get_tables()->operations[*at];
    if (!lock_row(&o->row)) return NULL;
    if (atomic_load(&o->row.generation) & 1) write_operation(o);
    return o;
}

static struct operation *lock_operation(const void *handle, enum handle_kind kind) {
    struct operation *o = &get_tables()->operations[handle_row(handle) % OPERATIONS];
    return lock_handle(handle, kind, &o->row) ? o : NULL;
}

/* ---- reading descriptors */

static const void *field(const void *descriptor, uint16_t offset) {
    return offset == NCCL_ABSENT ? NULL : (const char *)descriptor + offset;
}
static uint64_t get_u64(const void *d, uint16_t offset, uint64_t otherwise) {
    const void *p = field(d, offset);
    uint64_t v = otherwise;
    if (p) memcpy(&v, p, sizeof v);
    return v;
}
static uint32_t get_int(const void *d, uint16_t offset) {
    const void *p = field(d, offset);
    int v = -1;
    if (p) memcpy(&v, p, sizeof v);
    return known(v);
}
static uint32_t get_byte(const void *d, uint16_t offset) {
    const unsigned char *p = field(d, offset);
    return p ? *p : TRACE_UNKNOWN_U32;
}
static const char *get_text(const void *d, uint16_t offset) {
    const void *p = field(d, offset);
    const char *text = NULL;
    if (p) memcpy(&text, p, sizeof text);
    return text ? text : "";
}
static uint64_t event_type(const struct nccl_layout *l, const void *d) {
    return l->type_bytes == 1 ? get_byte(d, l->type) : get_u64(d, l->type, 0);
}

static uint32_t add_text(struct trace_writer *w, const char *text) {
    return w && *text ? trace_writer_str(w, text) : 0;
}

/* Sets operation, name, element type, count and bytes. NCCL's count of an all-to-all is that for one rank. */
static void set_data(struct trace_writer *w, struct trace_collective *r, const char *function,
                     const char *type, uint64_t count) {
    uint32_t bytes;
    const char *name = trace_collective_type_of(type, strlen(type), &bytes);
    r->op = trace_collective_op_of(function, strlen(function));
    r->name = add_text(w, function);
    r->data_type = add_text(w, name ? name : type);
    if (r->op == TRACE_OP_ALL_TO_ALL &&
        (r->size == TRACE_UNKNOWN_U32 || __builtin_mul_overflow(count, (uint64_t)r->size, &count)))
        return;
    r->count = count;
    if (!name || __builtin_mul_overflow(count, (uint64_t)bytes, &r->bytes)) r->bytes = TRACE_UNKNOWN_U64;
}

static bool has_root(uint32_t op) {
    return op == TRACE_OP_BROADCAST || op == TRACE_OP_REDUCE || op == TRACE_OP_GATHER ||
           op == TRACE_OP_SCATTER;
}

static void read_coll(struct trace_writer *w, const struct nccl_layout *l, const void *d,
                      struct trace_collective *r) {
    set_data(w, r, get_text(d, l->coll_function), get_text(d, l->coll_type), get_u64(d, l->coll_count, 0));
    r->sequence = get_u64(d, l->coll_sequence, TRACE_UNKNOWN_U64);
    if (has_root(r->op)) r->root = get_int(d, l->coll_root);
    r->channels = get_byte(d, l->coll_channels != NCCL_ABSENT ? l->coll_channels : l->coll_max_channels);
    r->algorithm = add_text(w, get_text(d, l->coll_algorithm));
    r->protocol = add_text(w, get_text(d, l->coll_protocol));
    if (l->coll_hash == NCCL_ABSENT) return;
    r->communicator = get_u64(d, l->coll_hash, TRACE_UNKNOWN_U64);
    r->communicator_name = add_text(w, get_text(d, l->coll_name));
}

/* NCCL does not number sends and receives. They are counted per peer and direction, which gives the same
 * number on both sides. */
static void count_pair(struct comm *c, struct trace_collective *r) {
    if (r->peer >= PEERS || (r->op != TRACE_OP_SEND && r->op != TRACE_OP_RECV)) return;
    r->sequence = atomic_fetch_add(r->op == TRACE_OP_SEND ? &c->sent[r->peer] : &c->received[r->peer], 1);
    r->flags |= TRACE_COLLECTIVE_COUNTED;
}

static void read_p2p(struct trace_writer *w, struct comm *c, const void *d, struct trace_collective *r) {
    const struct nccl_layout *l = c->layout;
    set_data(w, r, get_text(d, l->p2p_function), get_text(d, l->p2p_type), get_u64(d, l->p2p_count, 0));
    r->peer = get_int(d, l->p2p_peer);
    r->channels = get_byte(d, l->p2p_channels);
    count_pair(c, r);
    if (l->p2p_hash == NCCL_ABSENT) return;
    r->communicator = get_u64(d, l->p2p_hash, TRACE_UNKNOWN_U64);
    r->communicator_name = add_text(w, get_text(d, l->p2p_name));
}

static void read_ce(struct trace_writer *w, const struct nccl_layout *l, const void *d,
                    struct trace_collective *r) {
    set_data(w, r, get_text(d, l->ce_function), get_text(d, l->ce_type), get_u64(d, l->ce_count, 0));
    r->sequence = get_u64(d, l->ce_sequence, TRACE_UNKNOWN_U64);
    if (has_root(r->op)) r->root = get_int(d, l->ce_root);
    r->algorithm = add_text(w, "CE");
}

/* Replaces the start time by that of the API call that enqueued the operation. That call includes the launch.
 * If that call is not known, the operation is marked as started after the launch. */
static void take_call(const void *handle, struct trace_collective *r) {
    struct call *call = &get_tables()->calls[handle_row(handle) % CALLS];
    r->flags |= TRACE_COLLECTIVE_AFTER_LAUNCH;
    if (!lock_handle(handle, HANDLE_CALL, &call->row)) return;
    if (call->thread == r->thread && call->start_ns <= r->start_ns) {
        r->start_ns = call->start_ns;
        r->flags &= ~(uint32_t)TRACE_COLLECTIVE_AFTER_LAUNCH;
    }
    if (call->captured) r->flags |= TRACE_COLLECTIVE_CAPTURED;
    unlock_row(&call->row);
}

/* ---- events */

static void *start_operation(void *context, struct comm *c, uint64_t type, const void *d) {
    size_t at;
    struct operation *o = take_operation(&at);
    if (!o) {
        output_lost(TRACE_COLLECTIVE, TRACE_LOST_SOURCE, 1);
        return NULL;
    }
    struct trace_writer *w = output_take();
    struct trace_collective *r = &o->r;
    *r = trace_collective_unknown(clock_wall_ns());
    r->thread = thread_id();
    r->rank = c->rank != TRACE_UNKNOWN_U32 ? c->rank : get_int(d, c->layout->rank);
    r->size = c->size;
    r->nodes = c->nodes;
    r->communicator = c->hash;
    r->communicator_name = add_text(w, c->name);
    if (type == NCCL_EVENT_COLL) read_coll(w, c->layout, d, r);
    if (type == NCCL_EVENT_P2P) read_p2p(w, c, d, r);
    if (type == NCCL_EVENT_CE_COLL) read_ce(w, c->layout, d, r);
    take_call((const void *)(uintptr_t)get_u64(d, c->layout->parent, 0), r);
    if (w) output_give();
    bool has_kernels = c->layout->channel_id != NCCL_ABSENT && type != NCCL_EVENT_CE_COLL;
    o->comm = context;
    o->stopped = false;
    o->gpu_times = c->layout->channel_timer != NCCL_ABSENT;
    o->first_ns = o->last_ns = 0;
    o->open = o->done = 0;
    /* if the number of channels is unknown, at least one must end */
    o->want = !has_kernels ? 0 : r->channels == TRACE_UNKNOWN_U32 ? 1 : r->channels;
    void *handle = make_handle(HANDLE_OPERATION, 0, at, renew(&o->row));
    unlock_row(&o->row);
    return handle;
}

/* A kernel reports the start of its work on one channel. The parent is the operation. */
static void *start_channel(struct comm *c, const void *d) {
    const struct nccl_layout *l = c->layout;
    const void *parent = (const void *)(uintptr_t)get_u64(d, l->parent, 0);
    uint64_t now = clock_wall_ns(), gpu_ns = get_u64(d, l->channel_timer, 0);
    struct operation *o = lock_operation(parent, HANDLE_OPERATION);
    if (!o) return NULL;
    o->open++;
    uint64_t at_ns = o->gpu_times ? gpu_ns : now;
    if (at_ns && (!o->first_ns || at_ns < o->first_ns)) o->first_ns = at_ns;
    if (o->gpu_times && gpu_ns) clock_add(&c->gpu, gpu_ns, now);
    void *handle = make_handle(HANDLE_CHANNEL, get_byte(d, l->channel_id), handle_row(parent),
                               handle_generation(parent));
    unlock_row(&o->row);
    return handle;
}

static void *start_call(const void *d, uint16_t captured) {
    size_t at = atomic_fetch_add(&next_call, 1) % CALLS;
    struct call *call = &get_tables()->calls[at];
    if (!lock_row(&call->row)) return NULL;
    if (!(atomic_load(&call->row.generation) & 1)) renew(&call->row);
    renew(&call->row); /* even, then odd: handles of the earlier call are stale */
    call->start_ns = clock_wall_ns();
    call->thread = thread_id();
    call->captured = get_byte(d, captured) == 1;
    void *handle = make_handle(HANDLE_CALL, 0, at, renew(&call->row));
    unlock_row(&call->row);
    return handle;
}

static void *start_event(void *context, const void *d) {
    struct comm *c = find_comm(context);
    void *handle = NULL;
    if (!c) return NULL;
    uint64_t type = event_type(c->layout, d);
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
        if (c->layout->coll_api_captured != NCCL_ABSENT) handle = start_call(d, c->layout->coll_api_captured);
        break;
    case NCCL_EVENT_P2P_API:
        if (c->layout->p2p_api_captured != NCCL_ABSENT) handle = start_call(d, c->layout->p2p_api_captured);
        break;
    default: break; /* groups, and events of later versions */
    }
    return handle;
}

static void stop_operation(const void *handle) {
    struct operation *o = lock_operation(handle, HANDLE_OPERATION);
    if (!o) return;
    if (!o->stopped) {
        o->stopped = true;
        o->r.end_ns = MAX(clock_wall_ns(), o->r.start_ns);
        if (is_complete(o)) write_operation(o);
    }
    unlock_row(&o->row);
}

static void stop_channel(const void *handle) {
    struct operation *o = lock_operation(handle, HANDLE_CHANNEL);
    if (!o) return;
    if (o->open) {
        o->open--;
        o->done++;
        if (!o->gpu_times) o->last_ns = MAX(o->last_ns, clock_wall_ns());
        if (is_complete(o)) write_operation(o);
    }
    unlock_row(&o->row);
}

/* Takes the GPU's time at the end of a channel's work. NCCL reports this time before it stops the channel's
 * event. */
static void channel_ended(const void *handle, const void *args) {
    struct operation *o = lock_operation(handle, HANDLE_CHANNEL);
    uint64_t gpu_ns, now = clock_wall_ns();
    if (!o) return;
    memcpy(&gpu_ns, args, sizeof gpu_ns);
    void *comm = o->comm;
    bool valid = o->gpu_times && gpu_ns;
    if (valid) o->last_ns = MAX(o->last_ns, gpu_ns);
    unlock_row(&o->row);
    struct comm *c = valid ? find_comm(comm) : NULL;
    if (c) clock_add(&c->gpu, gpu_ns, now);
}

/* ---- the functions that NCCL calls. All except init always return NCCL_SUCCESS. */

static int on_init(unsigned version, void **context, int *mask, const char *name, uint64_t hash, int nodes,
                   int ranks, int rank) {
    int saved_errno;
    if (!context || !mask) return NCCL_INTERNAL_ERROR;
    *context = NULL;
    if (!host_enter(&saved_errno)) return NCCL_INTERNAL_ERROR;
    const struct nccl_layout *l = nccl_layout(version);
    void *handle = inject_start() ? open_comm(version, name, hash, nodes, ranks, rank) : NULL;
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
    if (!event || !descriptor || !context || !get_tables() || !host_enter(&saved_errno)) return NCCL_SUCCESS;
    *event = start_event(context, descriptor);
    host_leave(saved_errno);
    return NCCL_SUCCESS;
}

static int on_stop(void *event) {
    int saved_errno;
    if (!event || !get_tables() || !host_enter(&saved_errno)) return NCCL_SUCCESS;
    stop_operation(event);
    stop_channel(event);
    host_leave(saved_errno);
    return NCCL_SUCCESS;
}

static int on_state(void *event, int state, void *args) {
    int saved_errno;
    if (state != NCCL_STATE_KERNEL_CHANNEL_STOP || !event || !args) return NCCL_SUCCESS;
    if (!get_tables() || !host_enter(&saved_errno)) return NCCL_SUCCESS;
    channel_ended(event, args);
    host_leave(saved_errno);
    return NCCL_SUCCESS;
}

static void finish_operations(const void *comm) {
    for (size_t i = 0; i < OPERATIONS; i++) {
        struct operation *o = &get_tables()->operations[i];
        if (!(atomic_load(&o->row.generation) & 1) || !lock_row(&o->row)) continue;
        if (atomic_load(&o->row.generation) & 1 && (!comm || o->comm == comm)) write_operation(o);
        unlock_row(&o->row);
    }
}

static int on_finalize(void *context) {
    int saved_errno;
    if (!context || !get_tables() || !host_enter(&saved_errno)) return NCCL_SUCCESS;
    finish_operations(context);
    struct comm *c = find_comm(context);
    if (c && lock_handle(context, HANDLE_COMM, &c->row)) {
        renew(&c->row);
        unlock_row(&c->row);
    }
    host_leave(saved_errno);
    return NCCL_SUCCESS;
}

/* Versions 2 and 3 pass the communicator's name and hash with each event. */
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

#define PLUGIN(version, type)                                                  \
    EXPORT extern struct nccl_profiler_v##type ncclProfiler_v##version;        \
    EXPORT struct nccl_profiler_v##type ncclProfiler_v##version = {            \
        "inferprof", init_v##version, on_start, on_stop, on_state, on_finalize \
    };
PLUGIN(2, 2)
PLUGIN(3, 2)
PLUGIN(4, 4)
PLUGIN(5, 5)
PLUGIN(6, 5)

void nccl_finish(void) {
    if (get_tables()) finish_operations(NULL);
}

/* Handles of the parent stay with NCCL in the child. They are stale there: NCCL does not work after a
 * fork. */
void nccl_after_fork(void) {
    struct tables *t = get_tables();
    if (!t) return;
    for (size_t i = 0; i < OPERATIONS; i++) {
        atomic_flag_clear(&t->operations[i].row.locked);
        if (atomic_load(&t->operations[i].row.generation) & 1) renew(&t->operations[i].row);
    }
    for (size_t i = 0; i < CALLS; i++) atomic_flag_clear(&t->calls[i].row.locked);
    for (size_t i = 0; i < COMMS; i++) {
        atomic_flag_clear(&t->comms[i].row.locked);
        if (atomic_load(&t->comms[i].row.generation) & 1) renew(&t->comms[i].row);
    }
}
