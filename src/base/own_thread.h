/* Starts a thread of our own inside the profiled program. All signals are blocked on it, so that the
 * program's handlers never run there. Its stack size is given explicitly, because the program's default
 * may be tiny. */
#ifndef BASE_OWN_THREAD_H
#define BASE_OWN_THREAD_H

#include <pthread.h>
#include <stddef.h>

#define OWN_THREAD_STACK ((size_t)512 << 10) /* sufficient for threads that run only our code */

/* Returns an error number; 0: started. */
int own_thread_start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg);
void own_thread_name(const char *name); /* names the calling thread; at most 15 characters */

#endif
