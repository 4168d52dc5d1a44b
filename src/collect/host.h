/* The border between the program (the host) and the collector. Rules that hold for every function that the
 * program, or CUPTI on one of its threads, calls:
 *   - host_enter() and host_leave() bracket it. The host's errno is as before.
 *   - It refuses to run inside itself. A signal handler may interrupt our code and call NVTX or CUDA: waiting
 *     for a lock that the interrupted frame holds would hang. What is refused is counted as lost.
 *   - It refuses to run in a process that is a copy of ours without our knowledge (clone(), _Fork()): our
 *     threads do not exist there.
 *   - It needs little stack: threads of programs may have 16 KiB in all. Files are opened on our own threads.
 * Launch callbacks use only `host_depth` (callbacks.c): they must stay short. */
#ifndef COLLECT_HOST_H
#define COLLECT_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

extern __thread unsigned host_depth; /* frames of ours on this thread that the host called */
extern lock_limit host_locks;        /* of all locks of the collector; set when the process ends */

void host_start(void); /* remembers the process */
/* False for a copy that after_fork() has not seen. Costs one load. */
bool host_is_our_process(void);
/* The same, and false also for a child that shares our memory (vfork). Makes a system call. */
bool host_is_exactly_our_process(void);
bool host_enter(int *saved_errno); /* false: not entered, do nothing */
void host_leave(int saved_errno);
void host_after_fork(void);

#endif
