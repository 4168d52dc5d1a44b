#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    return -1;
}

int err_wrap(struct err *err, const char *fmt, ...) {
    char cause[sizeof err->msg];
    memcpy(cause, err->msg, sizeof cause);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n + 2 >= sizeof err->msg) return -1; /* no space for the cause */
    size_t room = sizeof err->msg - (size_t)n - 3, len = strlen(cause);
    memcpy(err->msg + n, ": ", 2);
    memcpy(err->msg + n + 2, cause, len < room ? len : room);
    err->msg[(size_t)n + 2 + (len < room ? len : room)] = '\0';
    return -1;
}
