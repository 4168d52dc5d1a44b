/* Arbitrary bytes as CSV of Nsight Compute. The reports must be able to read the result. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "base/die.h"
#include "import/ncu.h"
#include "run/ncu_profiles.h"

static void read_back(const struct strbuf *json, size_t kernels) {
    struct err err;
    struct ncu_profiles *p = ncu_profiles_parse(json->buf, json->len, "ncu.json", &err);
    if (!p || p->n != kernels) __builtin_trap();
    for (size_t i = 0; i < p->n; i++) free(kernel_name_normalize(p->v[i].name));
    ncu_profiles_close(p);
}

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
        read_back(&out, classes.n);
        ncu_text(&n, &classes, 10, 80, &out);
        free(classes.v);
    }
    ncu_free(&n);
    strbuf_free(&out);
    free(text);
    return 0;
}
