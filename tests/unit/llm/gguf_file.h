/* Builds GGUF files in memory:
 *     struct gguf_file f;
 *     gguf_file_start(&f, "llama");                    -- general.architecture
 *     gguf_file_u32(&f, "llama.block_count", 2);
 *     gguf_file_tensor(&f, "token_embd.weight", GGML_Q8_0, 64, 100, 0);
 *     gguf_file_finish(&f);                            -- f.out: the file, with zeros as data
 *     gguf_file_free(&f); */
#ifndef TESTS_UNIT_LLM_GGUF_FILE_H
#define TESTS_UNIT_LLM_GGUF_FILE_H

#include <stdint.h>

#include "base/strbuf.h"
#include "llm/gguf.h"

struct gguf_file {
    struct strbuf values, tensors, out;
    uint64_t nvalues, ntensors, data_bytes;
    uint64_t numbers; /* of all tensors */
};

void gguf_file_start(struct gguf_file *f, const char *arch);
void gguf_file_u32(struct gguf_file *f, const char *key, uint32_t v);
void gguf_file_f32(struct gguf_file *f, const char *key, float v);
void gguf_file_str(struct gguf_file *f, const char *key, const char *v);
/* Sizes from the innermost; 0 ends the list. */
void gguf_file_tensor(struct gguf_file *f, const char *name, uint32_t type, uint64_t d0, uint64_t d1,
                      uint64_t d2);
void gguf_file_finish(struct gguf_file *f);
void gguf_file_free(struct gguf_file *f);

/* Raw pieces, for damaged files. */
void gguf_put_u32(struct strbuf *s, uint32_t v);
void gguf_put_u64(struct strbuf *s, uint64_t v);
void gguf_put_str(struct strbuf *s, const char *v);

#endif
