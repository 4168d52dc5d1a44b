#include "base/die.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc_guard.h"

void die(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("inferprof: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

void *xmalloc(size_t bytes) {
    void *p = alloc_guard_refuses() ? NULL : malloc(bytes ? bytes : 1);
    if (!p) alloc_failed(bytes);
    return p;
}

void *xcalloc(size_t n, size_t elem_bytes) {
    void *p = alloc_guard_refuses() ? NULL : calloc(n ? n : 1, elem_bytes ? elem_bytes : 1);
    if (!p) alloc_failed(n > SIZE_MAX / (elem_bytes ? elem_bytes : 1) ? SIZE_MAX : n * elem_bytes);
    return p;
}

char *xstrndup(const char *s, size_t n) {
    char *p = xmalloc(n + 1);
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *xstrdup(const char *s) { return xstrndup(s, strlen(s)); }

char *xasprintf(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) die("bad format: %s", fmt);
    char *p = xmalloc((size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}
