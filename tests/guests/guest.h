/* Shared by the guest programs: CUDA through the mock driver, and NVTX as in a real program. Without the
 * collector, these functions do nothing. */
#ifndef TESTS_GUESTS_GUEST_H
#define TESTS_GUESTS_GUEST_H

#include <wchar.h>

void guest_cuda(void);             /* cuInit() */
void guest_kernels(int n);         /* n launches */
void guest_push(const char *name); /* the first one initialises NVTX */
void guest_pop(void);
void guest_mark_wide(const wchar_t *name);
void guest_name_thread(unsigned tid, const char *name);
void guest_name_category(unsigned category, const char *name);
/* Prints a message and ends the process with status 1. */
void guest_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
