/* Per-thread state of the program's threads: the open NVTX ranges, and a ring of launches that are written
 * to the file in batches. The owner appends to its ring without a lock, and drains it when it is half full;
 * the background thread drains it every 200 ms. Neither waits for the other: a thread that finds the ring
 * full while it is being drained writes its launch directly. */
#ifndef COLLECT_THREAD_H
#define COLLECT_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "trace/format.h"

#define THREAD_RING 1024    /* launches; the more are drained at once, the less each costs */
#define THREAD_MAX_OPEN 256 /* open NVTX ranges per thread; deeper ones are counted as lost */

struct open_range {
    uint64_t start_ns;
    uint32_t domain; /* number in NVTX_DOMAINS, nvtx_names.h */
    uint32_t category;
    uint32_t own;    /* enum nvtx_own; 0: none */
    uint32_t name;   /* string id in the open file */
    uint32_t detail; /* string id, for operators; 0: none */
    bool op;         /* an operator of PyTorch */
    bool windowed;   /* matches --range: keeps the capture window open */
    double payload;  /* NaN: none */
};

/* A launch touches two cache lines: the first one of this struct and its entry in the ring. */
struct thread_state {
    _Alignas(64) atomic_uint tid;
    uint32_t ring_slots;         /* THREAD_RING; 0: no ring yet */
    struct trace_launch *ring;   /* `api` is the call's id until the entry is drained */
    atomic_uint head, tail;      /* launches appended and drained so far */
    _Atomic uint64_t calls;      /* recorded so far; written by the owner only */
    _Atomic uint64_t unrecorded; /* calls outside of windows so far, estimated; written by the owner only */
    atomic_flag draining;        /* a thread is draining the ring */
    atomic_bool in_use;          /* false: its thread has ended, and a new thread may reuse the state */
    struct thread_state *next;
    atomic_flag ranges_busy; /* held while the fields below are used; their owner never waits for it */
    atomic_uint nopen;       /* open ranges */
    uint32_t too_deep;       /* pushes beyond THREAD_MAX_OPEN */
    struct open_range open[THREAD_MAX_OPEN]; /* last: pages that are never used take no memory */
};

extern __thread struct thread_state *thread_current;
__attribute__((cold)) struct thread_state *thread_register(void);
static inline struct thread_state *thread_self(void) { /* NULL: out of memory, or too many threads */
    struct thread_state *t = thread_current;
    return t ? t : thread_register();
}
uint32_t thread_id(void); /* gettid() */
static inline void thread_counter_add(_Atomic uint64_t *n,
                                      unsigned by) { /* owner only; no locked instruction */
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + by, memory_order_relaxed);
}
__attribute__((cold)) void thread_drain(struct thread_state *t);
__attribute__((cold)) void thread_add_launch_slow(struct thread_state *t, struct trace_launch l);
/* Owner only; `api` is the call's id. */
static inline void thread_add_launch(struct thread_state *t, struct trace_launch l) {
    unsigned head = atomic_load_explicit(&t->head, memory_order_relaxed);
    unsigned waiting = head - atomic_load_explicit(&t->tail, memory_order_acquire);
    if (waiting == t->ring_slots) { /* no ring, or full while another thread drains it: do not wait */
        thread_add_launch_slow(t, l);
        return;
    }
    t->ring[head % THREAD_RING] = l;
    atomic_store_explicit(&t->head, head + 1, memory_order_release);
    if (waiting + 1 >= THREAD_RING / 2) thread_drain(t);
}
void thread_drain_all(void); /* background thread */
/* At the end of the process: waits for threads that drain their own ring, up to host_locks (host.h); what
 * cannot be drained is counted as lost. */
void thread_drain_rest(void);
/* The open ranges of a thread. False: they are in use. */
bool thread_take_ranges(struct thread_state *t);
void thread_give_ranges(struct thread_state *t);
/* Calls `visit` with the ranges taken, for each live thread; those of a thread that was stopped while it used
 * them are counted as lost. */
typedef void (*thread_visit)(struct thread_state *t);
void thread_each_open(thread_visit visit);
extern thread_visit thread_end_ranges;         /* set by nvtx.c: a thread ends; its ranges are taken */
uint64_t thread_unrecorded_calls(void);        /* of all threads so far */
uint64_t thread_recorded_calls(void);          /* of all threads so far */
void thread_each(void (*visit)(uint32_t tid)); /* live threads */
void thread_after_fork(void); /* in the child: only this thread exists; pending launches are the parent's */

#endif
