/* Shapes of operators: the name on the first line, the detail after it. FLOPs are never negative. */
#include <stdlib.h>
#include <string.h>

#include "analyze/operator_shapes.h"
#include "base/die.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *name = xstrndup((const char *)data, size), *end = strchr(name, '\n');
    struct operator_work work = { 0 };
    struct operator_gemm gemm;
    if (end) {
        *end = '\0';
        if (operator_shapes_work(name, end + 1, &work) && !(work.flops >= 0)) abort();
        if (operator_shapes_gemm(name, end + 1, &gemm) && !(gemm.m > 0 && gemm.m < 1e16)) abort();
    }
    free(name);
    return 0;
}
