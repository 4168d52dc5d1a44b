/* Loads libraries that only some commands need, so that the other commands start without them.
 *     static struct { __typeof__(PQclear) *clear; } api;
 *     static const struct library_function rows[] = { { "PQclear", &api.clear } };
 *     if (library_load("libpq.so.5", "libpq5", rows, COUNTOF(rows), &err) < 0) ...
 * A library stays open until the program ends. */
#ifndef BASE_SHARED_LIBRARY_H
#define BASE_SHARED_LIBRARY_H

#include <stddef.h>

#include "base/err.h"

struct library_function {
    const char *name;
    void *pointer; /* function pointer to set */
};

/* `package`: Debian package, for the error message */
int library_load(const char *soname, const char *package, const struct library_function *rows, size_t n,
                 struct err *err);

#endif
