/* Tables of the NCCL plugin: communicators, operations and calls of the program. They have a fixed size and
 * are mapped by the first nccl_comm_open(). */
#ifndef COLLECT_NCCL_TABLES_H
#define COLLECT_NCCL_TABLES_H

#include "collect/nccl_layout.h"
#include "collect/nccl_rows.h"
#include "trace/format.h"

#define NCCL_PEERS 1024 /* only lower ranks are counted */

/* Difference between our clock and the clock of the communicator's GPU. GPU times reach us late, never early.
 * Therefore the smallest difference in the current and previous window is used. */
struct nccl_gpu_clock {
    _Atomic uint64_t window_ns;        /* start; 0: no window yet */
    _Atomic int64_t now_ns, before_ns; /* smallest difference: current and previous window */
};

/* Only `gpu`, `sent` and `received` change between init and finalize. */
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
    struct trace_collective r; /* with string ids of the open file */
    void *comm;
    bool stopped;               /* NCCL has enqueued the operation */
    unsigned open, done, want;  /* channels: running, ended, expected */
    bool gpu_times;             /* first_ns, last_ns: GPU clock */
    uint64_t first_ns, last_ns; /* over all channels; 0: none */
};
/* A call of the program. Operations refer to it after it has returned, so its row is not freed but
 * overwritten by a later call. */
struct nccl_call {
    struct nccl_row row;
    uint64_t start_ns;
    uint32_t thread;
    bool captured;
};

/* Returns false until the first nccl_comm_open(). Until then, only nccl_comm_open() and
 * nccl_tables_after_fork() may be called. */
bool nccl_tables_exist(void);
/* NCCL does not work in the child: frees all communicators, operations and locks. */
void nccl_tables_after_fork(void);

/* nodes, ranks, rank < 0: unknown. Returns a handle; NULL: no memory or no free row. */
void *nccl_comm_open(unsigned version, const char *name, uint64_t hash, int nodes, int ranks, int rank);
struct nccl_comm *nccl_comm_find(const void *handle); /* NULL: stale handle */
void nccl_comm_close(const void *handle);
void nccl_clock_add(struct nccl_gpu_clock *g, uint64_t gpu_ns, uint64_t host_ns);

/* Returns the next row, locked. If the row is in use, its operation is the oldest one and is written
 * unfinished first. NULL: the row could not be locked. */
struct nccl_operation *nccl_operation_take(size_t *at);
/* NULL: the handle is stale or of another kind, or its row could not be locked. */
struct nccl_operation *nccl_operation_lock(const void *handle, enum nccl_handle_kind kind);
/* If the operation is complete, writes it and frees its row. The caller has locked the row. */
void nccl_operation_settle(struct nccl_operation *o);
/* Writes the unfinished operations of a communicator; NULL: of all communicators. */
void nccl_operations_finish(const void *comm);

/* Returns a handle; NULL: the row could not be locked. */
void *nccl_call_start(bool captured);
/* Sets the start time of `r` to the start of the API call that enqueued it. If that call is unknown or ran on
 * another thread, sets TRACE_COLLECTIVE_AFTER_LAUNCH instead. Sets TRACE_COLLECTIVE_CAPTURED if the call was
 * captured into a CUDA graph. */
void nccl_call_take(const void *handle, struct trace_collective *r);

/* NCCL uses negative values for unknown. */
static inline uint32_t nccl_known(int v) { return v < 0 ? TRACE_UNKNOWN_U32 : (uint32_t)v; }

#endif
