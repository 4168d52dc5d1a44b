/* What the collector keeps for each thread of the program: the call it is in, its open NVTX ranges, and the records
 * that wait to go to the file together. The owner appends; the keeper thread empties what lies too long. Neither
 * waits for the other: who finds it busy goes another way. */
#ifndef COLLECT_THREAD_H
#define COLLECT_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "trace/format.h"

#define THREAD_BATCH 64
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

struct thread_state {
    atomic_flag busy;
    atomic_bool in_use; /* false: its thread ended; the next new thread may have it */
    uint32_t tid;
    uint64_t call_start_ns; /* of the CUDA call it is in */
    uint32_t call_correlation;
    uint32_t call_id;       /* callback id; 0: in none */
    uint64_t calls, passed; /* so far: recorded; made while no window was open */
    uint32_t nlaunches;
    struct trace_launch launches[THREAD_BATCH];
    uint32_t nopen, too_deep;
    struct open_range open[THREAD_MAX_OPEN];
    struct thread_state *next;
};

struct thread_state *thread_self(void); /* NULL: no memory, or too many threads */
uint32_t thread_id(void);               /* the kernel's number for this thread */
void thread_put_launch(struct thread_state *t, const struct trace_launch *l);
/* Hands every thread's waiting records to the file. */
void thread_drain_all(void);
/* Calls visit for every open range of every thread. */
void thread_each_open(void (*visit)(uint32_t tid, uint32_t depth, const struct open_range *r));
uint64_t thread_passed(void);                  /* calls of all threads outside of windows so far */
uint64_t thread_calls(void);                   /* recorded by all threads so far */
void thread_each(void (*visit)(uint32_t tid)); /* threads that live */
void thread_after_fork(void); /* in the child: only this thread exists, and what waited is the parent's */

#endif
