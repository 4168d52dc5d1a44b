#include "analyze/element_type.h"

#include <string.h>

#include "base/util.h"

double element_type_bytes(const char *type, size_t len) {
    static const struct {
        const char *name;
        double bytes;
    } rows[] = { { "bf16", 2 }, { "fp16", 2 }, { "f16", 2 },   { "tf32", 4 },  { "fp32", 4 }, { "f32", 4 },
                 { "fp64", 8 }, { "f64", 8 },  { "fp8", 1 },   { "e4m3", 1 },  { "e5m2", 1 }, { "i8", 1 },
                 { "s8", 1 },   { "u8", 1 },   { "fp4", 0.5 }, { "e2m1", 0.5 } };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        const char *at = memmem(type, len, rows[i].name, strlen(rows[i].name));
        if (at) return rows[i].bytes;
    }
    return 0;
}
