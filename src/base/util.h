/* Macros for every file. */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

#include <stddef.h>

#define COUNTOF(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
