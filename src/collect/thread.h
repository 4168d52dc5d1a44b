/* What the collector keeps for each thread of the program: its open NVTX ranges, and the launches that
 * wait to go to the file together. The owner appends to a ring without any lock; the owner empties it when
 * it is half full, the keeper thread when it lies too long. Neither waits for the other: who finds it busy
 * goes another way. */
#ifndef COLLECT_THREAD_H
#define COLLECT_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "trace/format.h"

#define THREAD_RING 1024    /* launches; emptying it costs less for each the more of them there are */
#define THREAD_MAX_OPEN 256 /* NVTX ranges on one thread; deeper ones are counted as lost */

struct open_range {
    uint64_t start_ns;
    uint32_t domain; /* index, nvtx_names.h */
    uint32_t category;
    uint32_t own;    /* enum nvtx_own; 0: none */
    uint32_t name;   /* number of a string of the file that is open now */
    uint32_t detail; /* likewise, of an operator; 0: none */
    bool op;         /* an operator of PyTorch */
    bool windowed;   /* its name opened the capture window */
    double payload;  /* NaN: none */
};

/* What a launch touches lies in two cache lines: the first one here, and its place in the ring. */
struct thread_state {
    _Alignas(64) uint32_t tid;
    uint32_t room;             /* THREAD_RING; 0: there is no ring yet */
    struct trace_launch *ring; /* `api` is the call's id until it is handed on */
    atomic_uint head, tail;    /* launches appended and handed on so far: the ring holds those between */
    _Atomic uint64_t calls,
        passed;         /* so far: recorded; made while no window was open. The owner's to write */
    atomic_flag busy;   /* somebody is emptying the ring */
    atomic_bool in_use; /* false: its thread ended; the next new thread may have it */
    uint32_t nopen, too_deep;
    struct open_range open[THREAD_MAX_OPEN];
    struct thread_state *next;
};

extern __thread struct thread_state *thread_mine;
__attribute__((cold)) struct thread_state *thread_begin(void);
static inline struct thread_state *thread_self(void) { /* NULL: no memory, or too many threads */
    struct thread_state *t = thread_mine;
    return t ? t : thread_begin();
}
uint32_t thread_id(void);                                         /* the kernel's number for this thread */
static inline void thread_add(_Atomic uint64_t *n, unsigned by) { /* without a locked instruction */
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + by, memory_order_relaxed);
}
__attribute__((cold)) void thread_drain(struct thread_state *t);
__attribute__((cold)) void thread_put_aside(struct thread_state *t, struct trace_launch l);
/* By the owner; `api` is the call's id. */
static inline void thread_put(struct thread_state *t, struct trace_launch l) {
    unsigned head = atomic_load_explicit(&t->head, memory_order_relaxed);
    unsigned waiting = head - atomic_load_explicit(&t->tail, memory_order_acquire);
    if (waiting == t->room) { /* while the keeper empties it: do not wait for it */
        thread_put_aside(t, l);
        return;
    }
    t->ring[head % THREAD_RING] = l;
    atomic_store_explicit(&t->head, head + 1, memory_order_release);
    if (waiting + 1 >= THREAD_RING / 2) thread_drain(t);
}
/* Hands every thread's waiting records to the file. */
void thread_drain_all(void);
/* Calls visit for every open range of every thread. */
void thread_each_open(void (*visit)(uint32_t tid, uint32_t depth, const struct open_range *r));
uint64_t thread_passed(void);                  /* calls of all threads outside of windows so far */
uint64_t thread_calls(void);                   /* recorded by all threads so far */
void thread_each(void (*visit)(uint32_t tid)); /* threads that live */
void thread_after_fork(void); /* in the child: only this thread exists, and what waited is the parent's */

#endif
