/* The libraries (modules) that the program has loaded. A thread that calls dlopen() or dlsym() holds the
 * loader's lock, and a copy of the process made meanwhile by clone() or _Fork() hangs in exit(). Therefore
 * our threads look for libraries with modules_find(), which calls dlopen() only for one that is there. */
#ifndef COLLECT_MODULES_H
#define COLLECT_MODULES_H

#include <link.h>
#include <stdbool.h>

/* Calls dl_iterate_phdr(). Modules stay loaded during the call. Returns false if a thread is in fork(): the
 * child would inherit a lock that dl_iterate_phdr() holds and that the C library does not reset. */
bool modules_visit(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg);
/* Returns a handle of the first module whose file name begins with `prefix`, or NULL. */
void *modules_find(const char *prefix);

void modules_before_fork(void); /* waits at most 50 ms for visits that have begun */
void modules_after_parent_fork(void);
void modules_after_fork(void);

#endif
