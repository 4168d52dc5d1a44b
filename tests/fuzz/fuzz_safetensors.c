/* An untrusted safetensors header: every tensor of an opened file must be inside its data. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "llm/safetensors.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint64_t data_bytes = 1 << 20;
    struct err err;
    struct safetensors *st = safetensors_parse((const char *)data, size, data_bytes, "fuzz", &err);
    for (size_t i = 0; st && i < safetensors_count(st); i++) {
        const struct safetensors_tensor *t = safetensors_at(st, i);
        if (t->offset < 8 + size || t->bytes > data_bytes || t->offset - 8 - size > data_bytes - t->bytes)
            abort();
        if (!safetensors_find(st, t->name)) abort();
    }
    safetensors_close(st);
    return 0;
}
