/* Names of element types in traces: "bf16", "f32", "fp8_e4m3". */
#ifndef ANALYZE_ELEMENT_TYPE_H
#define ANALYZE_ELEMENT_TYPE_H

#include <stddef.h>

#include "llm/dtype.h"

enum llm_dtype element_type(const char *name, size_t len); /* LLM_DTYPE_UNKNOWN: another name */
double element_type_bytes(const char *name, size_t len);   /* 0: unknown */

#endif
