#include "collect/nccl_tables.h"

#include <stdio.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/util.h"
#include "collect/output.h"
#include "collect/thread.h"

#define NCCL_COMMS 256 /* open at one time */
/* If more operations are open, the oldest one is written unfinished. */
#define NCCL_OPERATIONS 4096
#define NCCL_CALLS 4096             /* later calls overwrite earlier ones */
#define CLOCK_WINDOW_NS 1000000000u /* see struct nccl_gpu_clock */

/* 3 MB, mapped by the first init: programs without NCCL do not need them. */
struct tables {
    struct nccl_comm comms[NCCL_COMMS];
    struct nccl_operation operations[NCCL_OPERATIONS];
    struct nccl_call calls[NCCL_CALLS];
};
static _Atomic(struct tables *) all_tables; /* NULL: not mapped yet */
static atomic_uint next_comm;

static struct tables *get_tables(void) { return atomic_load_explicit(&all_tables, memory_order_acquire); }

bool nccl_tables_exist(void) { return get_tables() != NULL; }

static struct tables *map_tables(void) {
    struct tables *now = get_tables();
    if (now) return now;
    void *new = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (new == MAP_FAILED) return NULL;
    if (atomic_compare_exchange_strong(&all_tables, &now, new)) return new;
    munmap(new, sizeof *now); /* another thread was faster */
    return now;
}

/* ---- communicators */

void nccl_clock_add(struct nccl_gpu_clock *g, uint64_t gpu_ns, uint64_t host_ns) {
    int64_t difference = (int64_t)(host_ns - gpu_ns);
    uint64_t window = atomic_load(&g->window_ns);
    if (!window || host_ns - window > CLOCK_WINDOW_NS) {
        atomic_store(&g->before_ns, window ? atomic_load(&g->now_ns) : difference);
        atomic_store(&g->now_ns, difference);
        atomic_store(&g->window_ns, host_ns);
    }
    if (difference < atomic_load(&g->now_ns)) atomic_store(&g->now_ns, difference);
}

static uint64_t clock_to_host(const struct nccl_gpu_clock *g, uint64_t gpu_ns) {
    int64_t now = atomic_load(&g->now_ns), before = atomic_load(&g->before_ns);
    return gpu_ns + (uint64_t)MIN(now, before);
}

/* Returns a free row, locked. NULL: none is free. */
static struct nccl_comm *take_comm(struct tables *t, size_t *at) {
    for (unsigned i = 0; i < NCCL_COMMS; i++) {
        *at = atomic_fetch_add(&next_comm, 1) % NCCL_COMMS;
        struct nccl_comm *c = &t->comms[*at];
        if (nccl_row_in_use(&c->row) || !nccl_row_lock(&c->row)) continue;
        if (!nccl_row_in_use(&c->row)) return c;
        nccl_row_unlock(&c->row);
    }
    return NULL;
}

void *nccl_comm_open(unsigned version, const char *name, uint64_t hash, int nodes, int ranks, int rank) {
    size_t at;
    struct tables *t = map_tables();
    struct nccl_comm *c = t ? take_comm(t, &at) : NULL;
    if (!c) return NULL;
    c->layout = nccl_layout(version);
    c->hash = hash;
    c->nodes = nccl_known(nodes);
    c->size = ranks > 0 ? (uint32_t)ranks : TRACE_UNKNOWN_U32;
    c->rank = nccl_known(rank);
    snprintf(c->name, sizeof c->name, "%s", name ? name : "");
    atomic_store(&c->gpu.window_ns, 0);
    for (size_t i = 0; i < NCCL_PEERS; i++) {
        atomic_store_explicit(&c->sent[i], 0, memory_order_relaxed);
        atomic_store_explicit(&c->received[i], 0, memory_order_relaxed);
    }
    void *handle = nccl_handle_make(NCCL_HANDLE_COMM, 0, at, nccl_row_renew(&c->row));
    nccl_row_unlock(&c->row);
    return handle;
}

struct nccl_comm *nccl_comm_find(const void *handle) {
    struct nccl_comm *c = &get_tables()->comms[nccl_handle_row(handle) % NCCL_COMMS];
    return nccl_handle_is_valid(handle, NCCL_HANDLE_COMM, &c->row) ? c : NULL;
}

void nccl_comm_close(const void *handle) {
    struct nccl_comm *c = nccl_comm_find(handle);
    if (!c || !nccl_handle_lock(handle, NCCL_HANDLE_COMM, &c->row)) return;
    nccl_row_renew(&c->row);
    nccl_row_unlock(&c->row);
}

/* ---- operations */

static atomic_uint next_operation;

/* GPU times are converted with the communicator's clock, which exists only until the communicator is
 * finalized. */
static void set_kernel_times(struct nccl_operation *o) {
    if (!o->done || !o->first_ns || o->last_ns < o->first_ns) return;
    if (o->gpu_times) {
        const struct nccl_comm *c = nccl_comm_find(o->comm);
        if (!c) return;
        uint64_t first_ns = clock_to_host(&c->gpu, o->first_ns), last_ns = clock_to_host(&c->gpu, o->last_ns);
        if (last_ns < first_ns) return; /* a GPU time so wrong that the sum wraps */
        o->first_ns = first_ns;
        o->last_ns = last_ns;
        o->r.flags |= TRACE_COLLECTIVE_GPU_CLOCK;
    }
    o->r.kernel_start_ns = o->first_ns;
    o->r.kernel_end_ns = o->last_ns;
    o->r.flags |= TRACE_COLLECTIVE_KERNEL_TIMES;
}

/* Writes the operation and frees its row. The caller has locked the row. */
static void write_operation(struct nccl_operation *o) {
    set_kernel_times(o);
    if (!o->stopped) o->r.flags |= TRACE_COLLECTIVE_OPEN;
    if (!(o->r.flags & TRACE_COLLECTIVE_KERNEL_TIMES))
        o->r.kernel_start_ns = o->r.kernel_end_ns = o->r.start_ns;
    nccl_row_renew(&o->row);
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_collective(w, &o->r, 1);
    output_give();
}

static bool is_complete(const struct nccl_operation *o) {
    return o->stopped && !o->open && o->done >= o->want;
}

void nccl_operation_settle(struct nccl_operation *o) {
    if (is_complete(o)) write_operation(o);
}

struct nccl_operation *nccl_operation_take(size_t *at) {
    *at = atomic_fetch_add(&next_operation, 1) % NCCL_OPERATIONS;
    struct nccl_operation *o = &get_tables()->operations[*at];
    if (!nccl_row_lock(&o->row)) return NULL;
    if (nccl_row_in_use(&o->row)) write_operation(o);
    return o;
}

struct nccl_operation *nccl_operation_lock(const void *handle, enum nccl_handle_kind kind) {
    struct nccl_operation *o = &get_tables()->operations[nccl_handle_row(handle) % NCCL_OPERATIONS];
    return nccl_handle_lock(handle, kind, &o->row) ? o : NULL;
}

void nccl_operations_finish(const void *comm) {
    for (size_t i = 0; i < NCCL_OPERATIONS; i++) {
        struct nccl_operation *o = &get_tables()->operations[i];
        if (!nccl_row_in_use(&o->row) || !nccl_row_lock(&o->row)) continue;
        if (nccl_row_in_use(&o->row) && (!comm || o->comm == comm)) write_operation(o);
        nccl_row_unlock(&o->row);
    }
}

/* ---- calls */

static atomic_uint next_call;

void *nccl_call_start(bool captured) {
    size_t at = atomic_fetch_add(&next_call, 1) % NCCL_CALLS;
    struct nccl_call *call = &get_tables()->calls[at];
    if (!nccl_row_lock(&call->row)) return NULL;
    if (!nccl_row_in_use(&call->row)) nccl_row_renew(&call->row);
    nccl_row_renew(&call->row); /* even; nccl_row_renew() below: odd */
    call->start_ns = clock_wall_ns();
    call->thread = thread_id();
    call->captured = captured;
    void *handle = nccl_handle_make(NCCL_HANDLE_CALL, 0, at, nccl_row_renew(&call->row));
    nccl_row_unlock(&call->row);
    return handle;
}

void nccl_call_take(const void *handle, struct trace_collective *r) {
    struct nccl_call *call = &get_tables()->calls[nccl_handle_row(handle) % NCCL_CALLS];
    r->flags |= TRACE_COLLECTIVE_AFTER_LAUNCH;
    if (!nccl_handle_lock(handle, NCCL_HANDLE_CALL, &call->row)) return;
    if (call->thread == r->thread && call->start_ns <= r->start_ns) {
        r->start_ns = call->start_ns;
        r->flags &= ~(uint32_t)TRACE_COLLECTIVE_AFTER_LAUNCH;
    }
    if (call->captured) r->flags |= TRACE_COLLECTIVE_CAPTURED;
    nccl_row_unlock(&call->row);
}

void nccl_tables_after_fork(void) {
    struct tables *t = get_tables();
    if (!t) return;
    for (size_t i = 0; i < NCCL_OPERATIONS; i++) {
        atomic_flag_clear(&t->operations[i].row.locked);
        if (nccl_row_in_use(&t->operations[i].row)) nccl_row_renew(&t->operations[i].row);
    }
    for (size_t i = 0; i < NCCL_CALLS; i++) atomic_flag_clear(&t->calls[i].row.locked);
    for (size_t i = 0; i < NCCL_COMMS; i++) {
        atomic_flag_clear(&t->comms[i].row.locked);
        if (nccl_row_in_use(&t->comms[i].row)) nccl_row_renew(&t->comms[i].row);
    }
}
