/* Arbitrary bytes as a summary CSV of Nsight Systems. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "base/die.h"
#include "import/nsys_summary.h"

static void row(void *ctx, const char *name, size_t len, uint64_t calls, uint64_t total_ns) {
    uint64_t *sum = ctx;
    for (size_t i = 0; i < len; i++) *sum += (unsigned char)name[i];
    *sum += calls + total_ns;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = xmalloc(size + 1);
    struct err err;
    uint64_t sum = 0, bad = 0;
    memcpy(text, data, size);
    nsys_summary_read_text(text, size, "fuzz", row, &sum, &bad, &err);
    free(text);
    return 0;
}
