/* State of the program's threads: open NVTX ranges, and a ring of launches that are written in batches. The
 * owner appends to its ring without a lock and drains it when it is half full. The background thread drains
 * it every 200 ms. No thread waits: if the ring is full, the owner writes its launch directly. */
#ifndef COLLECT_THREAD_H
#define COLLECT_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "collect/host.h"
#include "trace/format.h"

#define THREAD_RING 1024    /* entries per ring */
#define THREAD_MAX_OPEN 256 /* deeper ranges are counted as lost */

struct open_range {
    uint64_t start_ns;
    uint32_t domain; /* number in NVTX_DOMAINS, nvtx_names.h */
    uint32_t category;
    uint32_t own;    /* enum nvtx_own; 0: none */
    uint32_t name;   /* string id */
    uint32_t detail; /* string id, for operators; 0: none */
    uint32_t stack;  /* string id of the call path, for operators; 0: none */
    bool op;         /* an operator of PyTorch */
    uint32_t role;   /* enum window_role */
    double payload;  /* NaN: none */
};

/* A launch accesses two cache lines: the first line of this struct and an entry of the ring. */
struct thread_state {
    _Alignas(64) atomic_uint tid;
    uint32_t ring_slots;       /* THREAD_RING; 0: no ring yet */
    struct trace_launch *ring; /* `api`: call id until drained */
    atomic_uint head, tail;    /* launches appended, drained */
    _Atomic uint64_t calls;    /* recorded calls; owner writes */
    /* estimated calls outside of windows; owner writes */
    _Atomic uint64_t unrecorded;
    atomic_flag draining;
    atomic_bool in_use; /* false: free for reuse */
    struct thread_state *next;
    _Atomic uint64_t capture_calls; /* `calls` at the last capture call */
    /* The thread is capturing a stream, or thread_assume_captures() assumes it: launches do not run. */
    atomic_bool capturing;
    /* graph that was launched last while CUPTI was detached, and the function; owner only (replays.c) */
    void *graph;
    uint32_t graph_via;
    /* Protects the members below. The owner never waits for it. */
    atomic_flag ranges_busy;
    atomic_uint nopen;                       /* open ranges */
    uint32_t too_deep;                       /* number of pushes beyond THREAD_MAX_OPEN */
    struct open_range open[THREAD_MAX_OPEN]; /* last: unused pages cost nothing */
};

__attribute__((cold)) struct thread_state *thread_register(void);
/* NULL: no memory, or too many threads */
static inline struct thread_state *thread_self(void) {
    struct thread_state *t = host_thread.state;
    return t ? t : thread_register();
}
uint32_t thread_id(void); /* gettid() */
static inline void thread_counter_add(_Atomic uint64_t *n,
                                      /* owner only: no locked instruction */
                                      unsigned by) {
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + by, memory_order_relaxed);
}
__attribute__((cold)) void thread_drain(struct thread_state *t);
__attribute__((cold)) void thread_add_launch_slow(struct thread_state *t, struct trace_launch l);
/* Owner only. `api` is the call's id. */
static inline void thread_add_launch(struct thread_state *t, struct trace_launch l) {
    unsigned head = atomic_load_explicit(&t->head, memory_order_relaxed);
    unsigned waiting = head - atomic_load_explicit(&t->tail, memory_order_acquire);
    /* no ring, or a full ring that another thread drains */
    if (waiting == t->ring_slots) {
        thread_add_launch_slow(t, l);
        return;
    }
    t->ring[head % THREAD_RING] = l;
    atomic_store_explicit(&t->head, head + 1, memory_order_release);
    if (waiting + 1 >= THREAD_RING / 2) thread_drain(t);
}
void thread_drain_all(void); /* background thread */
/* For the end of the process. Waits for threads that drain their own ring, up to host_locks. Launches that
 * cannot be drained are counted as lost. */
void thread_drain_rest(void);
/* Returns false if the ranges are in use. */
bool thread_take_ranges(struct thread_state *t);
void thread_give_ranges(struct thread_state *t);
/* Calls `visit` for each live thread, with its ranges locked. Waits up to host_locks for ranges in use, then
 * counts them as lost. */
typedef void (*thread_visit)(struct thread_state *t);
void thread_each_open(thread_visit visit);
/* Set by nvtx_ranges.c. Called at the end of a thread, with its ranges locked. */
extern thread_visit thread_end_ranges;
uint64_t thread_unrecorded_calls(void); /* sum over all threads */
uint64_t thread_recorded_calls(void);   /* sum over all threads */
/* When CUPTI is attached, it is unknown which threads are capturing. This function marks all of them: if the
 * next capture call of a thread ends a capture, the calls until then were captured. */
void thread_assume_captures(void);
void thread_each(void (*visit)(uint32_t tid)); /* only live threads */
/* In the child of a fork only this thread exists. Pending launches belong to the parent. */
void thread_after_fork(void);

#endif
