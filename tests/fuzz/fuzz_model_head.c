/* An untrusted weight file, as the collector reads it inside a program. The description must fit its buffer,
 * and what the reader of traces makes of it must be a model or an error. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "collect/model_head.c"
#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "llm/gguf.h"
#include "llm/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t head[MODEL_HEAD_BYTES];
    struct memory_file f = memory_file_open(data, size);
    struct model_source source = { .fd = f.fd, .size = size };
    struct model_head h = model_head_read(&source, head);
    close(f.fd);
    if (h.bytes > sizeof head) abort();
    if (h.format != MODEL_GGUF) return 0;
    struct gguf_head part = { "fuzz", head, h.bytes, size };
    struct err err;
    llm_model_free(llm_model_of_heads(&part, 1, &(struct llm_load){ 0 }, &err));
    return 0;
}
