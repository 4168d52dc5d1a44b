/* The boundary between the program (the host) and the collector. These rules apply to every function that the
 * program, or CUPTI on one of its threads, calls:
 *   - host_enter() and host_leave() bracket it and preserve the program's errno.
 *   - It returns at once if our code is already running on the thread. A signal handler may interrupt our
 *     code and call NVTX or CUDA: waiting for a lock that the interrupted frame holds would hang.
 *   - It does not run in an unnoticed copy of our process (clone(), _Fork()): our threads do not exist
 *     there.
 *   - It needs little stack: a program's threads may have only 16 KiB. Files are opened on our own threads.
 * Two kinds of callbacks use only `host_thread`: those of launches (callbacks.c), because they must stay
 * short, and those of buffers (activity.c), because CUPTI may call them inside another function of ours. */
#ifndef COLLECT_HOST_H
#define COLLECT_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

/* The state of a thread. It is one variable, because each access to a thread-local variable takes a function
 * call. */
struct thread_state;
struct host_thread {
    struct thread_state *state; /* thread.h; NULL: not registered yet */
    unsigned depth;             /* number of our functions on this thread's stack that the program called */
};
extern __thread struct host_thread host_thread;
extern lock_limit host_locks; /* deadline of all locks of the collector; set when the process ends */

void host_start(void); /* stores the identity of this process */
/* Returns false in a copy of the process that after_fork() did not handle. Costs two loads; a system call if
 * the kernel has no MADV_WIPEONFORK. */
bool host_is_our_process(void);
/* Like host_is_our_process(), but also returns false in a child that shares our memory (vfork). Makes a
 * system call. */
bool host_is_exactly_our_process(void);
bool host_enter(int *saved_errno); /* returns false if not entered: the caller must return at once */
void host_leave(int saved_errno);
void host_after_fork(void);

#endif
