/* Human-readable numbers. NaN and infinities are a dash. Each function returns `out`. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

const char *units_bytes(double bytes, char *out, size_t cap);            /* 1.50 GB: powers of 1000 */
const char *units_count(double n, char *out, size_t cap);                /* 12.3 M */
const char *units_flops(double flops, char *out, size_t cap);            /* 977 GF */
const char *units_duration_ns(double ns, char *out, size_t cap);         /* 1.23 ms; 2 m 05 s */
const char *units_grouped(uint64_t n, char *out, size_t cap);            /* 1,234,567 */
int units_parse_bytes(const char *text, uint64_t *out, struct err *err); /* 64MiB, 1.5GB, 4096, 10k */

#endif
