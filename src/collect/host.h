/* The boundary between the program (the host) and the collector. These rules apply to every function that
 * the program, or CUPTI on one of its threads, calls:
 *   - It starts with host_enter() and ends with host_leave(), which restores the program's errno.
 *   - It returns at once if our code is already running on the thread: a signal handler may interrupt our
 *     code and call NVTX or CUDA, and waiting for a lock of the interrupted code would hang.
 *   - It returns at once in a copy of the process made by clone() or _Fork(), where our threads do not exist.
 *   - It needs little stack, because a thread may have only 16 KiB.
 * Callbacks of launches (callbacks.c) and of buffers (activity.c) use only `host_thread`. */
#ifndef COLLECT_HOST_H
#define COLLECT_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

/* One struct, because each access to a thread-local variable takes a function call. */
struct thread_state;
struct host_thread {
    struct thread_state *state; /* thread.h; NULL: not registered yet */
    unsigned depth;             /* nesting of our functions */
};
extern __thread struct host_thread host_thread;
extern lock_limit host_locks; /* deadline of all locks of the collector; set when the process ends */

void host_start(void); /* stores this process's identity */
/* Returns false in a copy of the process that after_fork() did not handle. Makes a system call only if the
 * kernel has no MADV_WIPEONFORK. */
bool host_is_our_process(void);
/* Like host_is_our_process(), but also returns false in a child that shares our memory (vfork). Makes a
 * system call. */
bool host_is_exactly_our_process(void);
bool host_enter(int *saved_errno); /* false: return at once */
void host_leave(int saved_errno);
void host_after_fork(void);

#endif
