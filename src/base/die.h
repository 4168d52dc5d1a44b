/* Fatal errors of the command-line program: out of memory, or a bug. Never linked into the collector, which
 * runs inside the profiled process. */
#ifndef BASE_DIE_H
#define BASE_DIE_H

#include <stddef.h>

_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* These never return NULL. On failure they end the program, or the guarded call (alloc_guard.h). */
void *xmalloc(size_t bytes);
void *xcalloc(size_t n, size_t elem_bytes);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
