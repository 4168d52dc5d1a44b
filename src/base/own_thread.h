/* Starts our own threads inside the profiled program. All signals are blocked on them, so that the program's
 * handlers never run there. The stack size is explicit, because the program's default may be tiny. */
#ifndef BASE_OWN_THREAD_H
#define BASE_OWN_THREAD_H

#include <pthread.h>
#include <stddef.h>

#define OWN_THREAD_STACK ((size_t)512 << 10) /* for our own code only */

/* 0, or an error number */
int own_thread_start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg);
void own_thread_name(const char *name); /* calling thread; up to 15 characters */
void own_thread_ends(void);             /* every thread calls this last */
int own_thread_count(void);             /* threads that were started and have not ended */
void own_thread_after_fork(void);       /* in the child: none of them exists */

#endif
