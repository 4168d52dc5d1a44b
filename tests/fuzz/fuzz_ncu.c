/* Any bytes as CSV of Nsight Compute. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "base/die.h"
#include "import/ncu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = xmalloc(size + 1);
    struct err err;
    struct ncu n;
    struct ncu_launches classes;
    struct strbuf out = STRBUF_INIT;
    memcpy(text, data, size);
    ncu_init(&n);
    if (ncu_read_text(&n, text, size, "fuzz", &err) == 0) {
        ncu_classes(&n, &classes);
        ncu_json(&n, &classes, &out);
        ncu_text(&n, &classes, 10, &out);
        free(classes.v);
    }
    ncu_free(&n);
    strbuf_free(&out);
    free(text);
    return 0;
}
