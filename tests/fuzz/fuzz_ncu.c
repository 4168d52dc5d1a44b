/* Any bytes as CSV of Nsight Compute, and as a summary of Nsight Systems. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "base/die.h"
#include "import/ncu.h"

static void row(void *ctx, const char *name, size_t len, uint64_t calls, uint64_t total_ns) {
    uint64_t *sum = ctx;
    for (size_t i = 0; i < len; i++) *sum += (unsigned char)name[i];
    *sum += calls + total_ns;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = xmalloc(size + 1);
    struct err err;
    struct ncu n;
    struct ncu_launches classes;
    struct strbuf out = STRBUF_INIT;
    uint64_t sum = 0, bad = 0;
    memcpy(text, data, size);
    ncu_init(&n);
    if (ncu_read_text(&n, text, size, "fuzz", &err) == 0) {
        ncu_classes(&n, &classes);
        ncu_json(&n, &classes, &out);
        ncu_text(&n, &classes, 10, &out);
        free(classes.v);
    }
    ncu_free(&n);
    memcpy(text, data, size);
    nsys_summary_read_text(text, size, "fuzz", row, &sum, &bad, &err);
    strbuf_free(&out);
    free(text);
    return 0;
}
