#include "unit/llm/gguf_file.h"

#include <string.h>

#include "base/util.h"

static void put(struct strbuf *s, const void *p, size_t n) { strbuf_add(s, p, n); }

void gguf_put_u32(struct strbuf *s, uint32_t v) { put(s, &v, sizeof v); }
void gguf_put_u64(struct strbuf *s, uint64_t v) { put(s, &v, sizeof v); }

void gguf_put_str(struct strbuf *s, const char *v) {
    gguf_put_u64(s, strlen(v));
    put(s, v, strlen(v));
}

void gguf_file_start(struct gguf_file *f, const char *arch) {
    *f = (struct gguf_file){ .values = STRBUF_INIT, .tensors = STRBUF_INIT, .out = STRBUF_INIT };
    gguf_file_str(f, "general.architecture", arch);
}

static void put_key(struct gguf_file *f, const char *key, uint32_t kind) {
    gguf_put_str(&f->values, key);
    gguf_put_u32(&f->values, kind);
    f->nvalues++;
}

void gguf_file_u32(struct gguf_file *f, const char *key, uint32_t v) {
    put_key(f, key, GGUF_U32);
    gguf_put_u32(&f->values, v);
}

void gguf_file_f32(struct gguf_file *f, const char *key, float v) {
    put_key(f, key, GGUF_F32);
    put(&f->values, &v, sizeof v);
}

void gguf_file_str(struct gguf_file *f, const char *key, const char *v) {
    put_key(f, key, GGUF_STRING);
    gguf_put_str(&f->values, v);
}

void gguf_file_tensor(struct gguf_file *f, const char *name, uint32_t type, uint64_t d0, uint64_t d1,
                      uint64_t d2) {
    const uint64_t dims[] = { d0, d1, d2 };
    struct ggml_type_info info = ggml_type_info(type);
    uint64_t numbers = 1;
    uint32_t n = 0;
    while (n < COUNTOF(dims) && dims[n]) numbers *= dims[n++];
    gguf_put_str(&f->tensors, name);
    gguf_put_u32(&f->tensors, n);
    for (uint32_t i = 0; i < n; i++) gguf_put_u64(&f->tensors, dims[i]);
    gguf_put_u32(&f->tensors, type);
    gguf_put_u64(&f->tensors, f->data_bytes);
    f->data_bytes += (numbers / info.numbers * info.bytes + 31) / 32 * 32;
    f->numbers += numbers;
    f->ntensors++;
}

void gguf_file_finish(struct gguf_file *f) {
    put(&f->out, "GGUF", 4);
    gguf_put_u32(&f->out, 3);
    gguf_put_u64(&f->out, f->ntensors);
    gguf_put_u64(&f->out, f->nvalues);
    put(&f->out, f->values.buf, f->values.len);
    put(&f->out, f->tensors.buf, f->tensors.len);
    while (f->out.len % 32) strbuf_addch(&f->out, '\0');
    for (uint64_t i = 0; i < f->data_bytes; i++) strbuf_addch(&f->out, '\0');
}

void gguf_file_free(struct gguf_file *f) {
    strbuf_free(&f->values);
    strbuf_free(&f->tensors);
    strbuf_free(&f->out);
}
