/* Tables of the NCCL plugin: communicators, operations and calls of the program. They have a fixed size and
 * are mapped by the first nccl_comm_open(). Every lock is tried only for a short time (nccl_row_lock). */
#ifndef COLLECT_NCCL_TABLES_H
#define COLLECT_NCCL_TABLES_H

#include "collect/nccl_layout.h"
#include "collect/nccl_rows.h"
#include "trace/format.h"

#define NCCL_PEERS 1024 /* sends to and receives from ranks below this one are counted */

/* Our clock minus the clock of the communicator's GPU. A time of the GPU reaches us late, never early, so
 * the smallest difference of the current and the previous window is used. */
struct nccl_gpu_clock {
    _Atomic uint64_t window_ns;        /* start of the current window; 0: no time yet */
    _Atomic int64_t now_ns, before_ns; /* smallest difference in the current and in the previous window */
};

/* A communicator. Only `gpu`, `sent` and `received` change between init and finalize. */
struct nccl_comm {
    struct nccl_row row;
    const struct nccl_layout *layout;
    uint64_t hash;
    uint32_t rank, size, nodes; /* TRACE_UNKNOWN_U32: unknown */
    char name[64];
    struct nccl_gpu_clock gpu;
    _Atomic uint32_t sent[NCCL_PEERS], received[NCCL_PEERS];
};
struct nccl_operation {
    struct nccl_row row;
    struct trace_collective r; /* texts are string numbers of the open trace file */
    void *comm;
    bool stopped;               /* NCCL has enqueued the operation */
    unsigned open, done, want;  /* channels: running, ended, expected */
    bool gpu_times;             /* first_ns and last_ns are on the clock of the GPU */
    uint64_t first_ns, last_ns; /* first start and last end over the channels; 0: none */
};
/* A call of the program. Operations refer to it after it has returned. Therefore a row is not freed when the
 * call returns, but overwritten by a later call. */
struct nccl_call {
    struct nccl_row row;
    uint64_t start_ns;
    uint32_t thread;
    bool captured;
};

/* Returns false until the first communicator was opened. The other functions, except nccl_comm_open() and
 * nccl_tables_after_fork(), may be called only after that. */
bool nccl_tables_exist(void);
/* In the child of a fork, where NCCL does not work: frees all locks, communicators and operations. */
void nccl_tables_after_fork(void);

/* Negative numbers are unknown. Returns a handle; NULL if there is no room. */
void *nccl_comm_open(unsigned version, const char *name, uint64_t hash, int nodes, int ranks, int rank);
struct nccl_comm *nccl_comm_find(const void *handle); /* NULL: stale handle */
void nccl_comm_close(const void *handle);
void nccl_clock_add(struct nccl_gpu_clock *g, uint64_t gpu_ns, uint64_t host_ns);

/* Takes the next row, locked. If an operation still uses the row, it is the oldest one, and is written
 * unfinished. Returns NULL if the row cannot be locked. */
struct nccl_operation *nccl_operation_take(size_t *at);
/* Locks the operation of a handle; NULL: the handle is stale or of another kind, or the row stays locked. */
struct nccl_operation *nccl_operation_lock(const void *handle, enum nccl_handle_kind kind);
/* Writes the operation if it is complete, and frees its row, which the caller has locked. */
void nccl_operation_settle(struct nccl_operation *o);
/* Writes all operations of a communicator that are still open; NULL: of all communicators. */
void nccl_operations_finish(const void *comm);

/* Starts a call of the program. Returns its handle; NULL if its row cannot be locked. */
void *nccl_call_start(bool captured);
/* Replaces the start time by that of the API call that enqueued the operation. That call includes the launch.
 * If that call is not known, or ran on another thread, the operation is marked as started after the launch.
 * Also marks operations that were captured into a CUDA graph. */
void nccl_call_take(const void *handle, struct trace_collective *r);

/* Converts NCCL's numbers, in which a negative value is unknown. */
static inline uint32_t nccl_known(int v) { return v < 0 ? TRACE_UNKNOWN_U32 : (uint32_t)v; }

#endif
