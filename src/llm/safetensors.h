/* Reads the headers of .safetensors files: the type, shape and location of every tensor. Does not read
 * weights.
 *     struct safetensors *st = safetensors_open("model/", &err);   -- file, folder or index.json
 *     const struct safetensors_tensor *t = safetensors_find(st, "lm_head.weight");
 *     safetensors_close(st);
 * The input is untrusted. After a successful open every tensor is inside its file, its size matches its
 * shape and type, and no two tensors of a file overlap. */
#ifndef LLM_SAFETENSORS_H
#define LLM_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "llm/dtype.h"

#define SAFETENSORS_DIMS_MAX 8

struct safetensors_tensor {
    const char *name;
    enum llm_dtype dtype;
    bool e4m3; /* LLM_FP8: the type is F8_E4M3 */
    int ndims;
    uint64_t shape[SAFETENSORS_DIMS_MAX]; /* outermost first */
    uint64_t numbers;                     /* product of shape */
    uint32_t file;                        /* index for safetensors_file() */
    uint64_t offset, bytes;               /* offset from the start of that file */
};

struct safetensors;
struct safetensors *safetensors_open(const char *path, struct err *err); /* NULL: see err */
void safetensors_close(struct safetensors *st);                          /* accepts NULL */
size_t safetensors_count(const struct safetensors *st);
const struct safetensors_tensor *safetensors_at(const struct safetensors *st, size_t i); /* sorted by name */
/* NULL: not found */
const struct safetensors_tensor *safetensors_find(const struct safetensors *st, const char *name);
size_t safetensors_files(const struct safetensors *st);
const char *safetensors_file(const struct safetensors *st, uint32_t file); /* path; NULL: no such file */

/* Parses a header in memory: `head` is the JSON, `data_bytes` the size of the data after it. `what` is the
 * name in messages. */
struct safetensors *safetensors_parse(const char *head, size_t head_bytes, uint64_t data_bytes,
                                      const char *what, struct err *err);

#endif
