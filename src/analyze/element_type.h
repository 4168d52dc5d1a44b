/* Names of element types in traces: "bf16", "f32", "fp8_e4m3". */
#ifndef ANALYZE_ELEMENT_TYPE_H
#define ANALYZE_ELEMENT_TYPE_H

#include <stddef.h>

double element_type_bytes(const char *type, size_t len); /* 0: unknown */

#endif
