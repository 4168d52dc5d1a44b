/* Per-thread state of the program's threads: the open NVTX ranges, and a ring of launches that are written
 * to the file in batches. The owner appends to its ring without a lock, and drains it when it is half
 * full; the background thread drains it every 200 ms. Neither waits for the other: if the ring is full
 * while another thread drains it, the owner writes its launch directly. */
#ifndef COLLECT_THREAD_H
#define COLLECT_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "collect/host.h"
#include "trace/format.h"

#define THREAD_RING 1024    /* entries of a ring; a larger batch has less overhead per launch */
#define THREAD_MAX_OPEN 256 /* open NVTX ranges per thread; deeper ranges are counted as lost */

struct open_range {
    uint64_t start_ns;
    uint32_t domain; /* number in NVTX_DOMAINS, nvtx_names.h */
    uint32_t category;
    uint32_t own;    /* enum nvtx_own; 0: none */
    uint32_t name;   /* string id in the open file */
    uint32_t detail; /* string id, for operators; 0: none */
    uint32_t stack;  /* string id of the call path, for operators; 0: none */
    bool op;         /* an operator of PyTorch */
    bool windowed;   /* matches --range, so it keeps the capture window open */
    double payload;  /* NaN: none */
};

/* A launch accesses two cache lines: the first line of this struct and its entry in the ring. */
struct thread_state {
    _Alignas(64) atomic_uint tid;
    uint32_t ring_slots;       /* THREAD_RING; 0: no ring yet */
    struct trace_launch *ring; /* `api` is the call's id until the entry is drained */
    atomic_uint head, tail;    /* number of launches appended and drained so far */
    _Atomic uint64_t calls;    /* number of recorded calls so far; written by the owner only */
    /* estimated number of calls outside of windows so far; written by the owner only */
    _Atomic uint64_t unrecorded;
    atomic_flag draining; /* a thread is draining the ring */
    atomic_bool in_use;   /* false: the thread has ended, and a new thread may reuse the state */
    struct thread_state *next;
    _Atomic uint64_t capture_calls; /* `calls` when the last stream capture began or ended */
    /* launches of the thread are captured into a graph and do not run (thread_assume_captures(): perhaps) */
    atomic_bool capturing;
    /* held while the fields below are used; the owner of the state never waits for it */
    atomic_flag ranges_busy;
    atomic_uint nopen;                       /* open ranges */
    uint32_t too_deep;                       /* number of pushes beyond THREAD_MAX_OPEN */
    struct open_range open[THREAD_MAX_OPEN]; /* last, because unused pages take no memory */
};

__attribute__((cold)) struct thread_state *thread_register(void);
/* returns NULL if memory is exhausted or there are too many threads */
static inline struct thread_state *thread_self(void) {
    struct thread_state *t = host_thread.state;
    return t ? t : thread_register();
}
uint32_t thread_id(void); /* gettid() */
static inline void thread_counter_add(_Atomic uint64_t *n,
                                      /* called by the owner only, so a locked instruction is not needed */
                                      unsigned by) {
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + by, memory_order_relaxed);
}
__attribute__((cold)) void thread_drain(struct thread_state *t);
__attribute__((cold)) void thread_add_launch_slow(struct thread_state *t, struct trace_launch l);
/* Called by the owner only; `api` is the call's id. */
static inline void thread_add_launch(struct thread_state *t, struct trace_launch l) {
    unsigned head = atomic_load_explicit(&t->head, memory_order_relaxed);
    unsigned waiting = head - atomic_load_explicit(&t->tail, memory_order_acquire);
    /* There is no ring, or it is full and another thread is draining it. Do not wait. */
    if (waiting == t->ring_slots) {
        thread_add_launch_slow(t, l);
        return;
    }
    t->ring[head % THREAD_RING] = l;
    atomic_store_explicit(&t->head, head + 1, memory_order_release);
    if (waiting + 1 >= THREAD_RING / 2) thread_drain(t);
}
void thread_drain_all(void); /* background thread */
/* At the end of the process: waits for threads that are draining their own ring, up to host_locks
 * (host.h). Launches that cannot be drained are counted as lost. */
void thread_drain_rest(void);
/* Acquires the open ranges of a thread. Returns false if they are in use. */
bool thread_take_ranges(struct thread_state *t);
void thread_give_ranges(struct thread_state *t);
/* Calls `visit` for each live thread, with its ranges acquired. Ranges of a thread that stopped while
 * using them are counted as lost. */
typedef void (*thread_visit)(struct thread_state *t);
void thread_each_open(thread_visit visit);
/* Set by nvtx_ranges.c. Called at the end of a thread, with its ranges acquired. */
extern thread_visit thread_end_ranges;
uint64_t thread_unrecorded_calls(void); /* returns the sum over all threads so far */
uint64_t thread_recorded_calls(void);   /* returns the sum over all threads so far */
/* A thread may be capturing a stream when CUPTI is attached. Assumes that every thread is: if
 * its next capture call ends a capture, all of its calls from now on were captured. */
void thread_assume_captures(void);
void thread_each(void (*visit)(uint32_t tid)); /* calls `visit` for each live thread */
/* Call this in the child after a fork: only this thread exists, and pending launches belong to the parent. */
void thread_after_fork(void);

#endif
