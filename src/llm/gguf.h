/* Reads GGUF files (versions 2 and 3): metadata, and the type, shape and location of every tensor. The
 * file is mapped, so tensor data is read only when used.
 *     struct gguf *g = gguf_open("model-00001-of-00003.gguf", &err);   -- all parts of a split model
 *     uint64_t layers;
 *     if (gguf_u64(g, "llama.block_count", &layers)) ...
 *     const struct gguf_tensor *t = gguf_find(g, "blk.0.attn_q.weight");
 *     const void *data = gguf_data(g, t);                                  -- t->bytes bytes
 *     gguf_close(g);
 * The input is untrusted. After a successful open, names are unique and every tensor has a known type.
 * With gguf_open() and gguf_parse(), every tensor is inside its file and does not overlap another tensor.
 * All data belongs to the handle and is valid until gguf_close. Several threads may use a handle. */
#ifndef LLM_GGUF_H
#define LLM_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "llm/ggml_types.h"

#define GGUF_DIMS_MAX 4

enum gguf_kind {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_KINDS,
};

struct gguf_tensor {
    const char *name;
    uint32_t type; /* enum ggml_type */
    int ndims;
    /* innermost first: dims[0] is the length of a row; unused dimensions are 1 */
    uint64_t dims[GGUF_DIMS_MAX];
    uint64_t numbers; /* product of dims */
    uint64_t bytes;
    uint32_t file;   /* index of the part */
    uint64_t offset; /* offset from the start of that file */
};

struct gguf_value {
    const char *key;
    enum gguf_kind kind;    /* GGUF_ARRAY: see `element` */
    enum gguf_kind element; /* arrays: kind of the elements; otherwise the same as `kind` */
    uint64_t count;         /* arrays: number of elements; otherwise 1 */
    struct bytes raw;       /* the value as stored; for arrays, the elements. Not aligned */
};

struct gguf;
struct gguf *gguf_open(const char *path, struct err *err); /* NULL: see err */
/* If `path` is a folder without config.json that contains exactly one GGUF model, returns the path of the
 * model's file or of its first part. Otherwise returns a copy of `path`. The caller frees the result. */
char *gguf_in_folder(const char *path);
/* Reads one file from memory, which must stay valid as long as the handle. `what` is its name in messages.
 * Only tests and fuzzers call it, because it needs no file. */
struct gguf *gguf_parse(const void *data, size_t n, const char *what, struct err *err);
/* The head of a file without its data, as the collector records it. `data` must stay valid as long as the
 * handle. Tensors have no data, and their offsets are relative to the data of their file. */
struct gguf_head {
    const char *path;
    const void *data;
    size_t bytes;
    uint64_t file_bytes; /* size of the whole file: no tensor may be larger */
};
struct gguf *gguf_parse_heads(const struct gguf_head *heads, size_t n, struct err *err);
void gguf_close(struct gguf *g); /* accepts NULL */

/* Only tests use these two, to check the header and that all parts were found. */
uint32_t gguf_version(const struct gguf *g);
size_t gguf_files(const struct gguf *g);
const char *gguf_file(const struct gguf *g, uint32_t file); /* path of a file; NULL: no such file */

/* ---- Tensors, in the order of the files */
size_t gguf_count(const struct gguf *g);
const struct gguf_tensor *gguf_at(const struct gguf *g, size_t i); /* NULL: out of range */
const struct gguf_tensor *gguf_find(const struct gguf *g, const char *name);
const void *gguf_data(const struct gguf *g, const struct gguf_tensor *t); /* NULL: only the head is known */

/* ---- Metadata of the first part. The typed readers return false if the key is missing or has another
 * kind.
 * Only tests and fuzzers use the first two functions, to read every value of a file. */
size_t gguf_values(const struct gguf *g);
const struct gguf_value *gguf_value_at(const struct gguf *g, size_t i); /* NULL: out of range */
const struct gguf_value *gguf_value(const struct gguf *g, const char *key);
/* Accepts any integer kind if the value is not negative. */
bool gguf_u64(const struct gguf *g, const char *key, uint64_t *out);
bool gguf_f64(const struct gguf *g, const char *key, double *out); /* any number */
bool gguf_bool(const struct gguf *g, const char *key, bool *out);
bool gguf_str(const struct gguf *g, const char *key, struct bytes *out); /* not terminated */
/* Element i of an array. Return false if there is none, or if it has another kind. */
bool gguf_array_u64(const struct gguf_value *v, uint64_t i, uint64_t *out);
bool gguf_array_f64(const struct gguf_value *v, uint64_t i, double *out);
/* Reads the next string of an array of strings; start with *at = v->raw. Returns false at the end. */
bool gguf_next_str(struct bytes *at, struct bytes *out);

#endif
