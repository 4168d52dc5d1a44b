/* Starts a thread of our own inside a program that is not ours. All signals are blocked on it, so that the
 * program's handlers never run there. Its stack has a size of its own: the program's default may be tiny. */
#ifndef BASE_OWN_THREAD_H
#define BASE_OWN_THREAD_H

#include <pthread.h>
#include <stddef.h>

#define OWN_THREAD_STACK ((size_t)512 << 10) /* enough where no foreign code runs */

/* Returns an error number; 0: started. */
int own_thread_start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg);
void own_thread_name(const char *name); /* of the calling thread; at most 15 characters */

#endif
