/* Reads the description of a model from a weight file: names, types and shapes of the tensors, and short
 * metadata values. Weights, vocabularies and templates are skipped. At most 64 MiB of a file are read. */
#ifndef COLLECT_MODEL_HEAD_H
#define COLLECT_MODEL_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_HEAD_BYTES ((size_t)1 << 20) /* longest description that is kept */

/* A file, or a mapping of a file in our own memory. */
struct model_source {
    int fd;        /* the file, or /proc/self/mem */
    uint64_t base; /* offset of the first byte */
    uint64_t size; /* bytes that may be read */
};

enum model_format { MODEL_UNKNOWN, MODEL_GGUF, MODEL_SAFETENSORS };

/* The description is in GGUF format without tensor data, or it is the JSON header of a safetensors file. */
struct model_head {
    enum model_format format;
    size_t bytes;
    bool incomplete; /* Longer than MODEL_HEAD_BYTES: tensors are missing (GGUF only), or `bytes` is 0. */
};

/* Writes the description to out[MODEL_HEAD_BYTES]. The format is MODEL_UNKNOWN if the file has another
 * format, is damaged or cannot be read. */
struct model_head model_head_read(const struct model_source *s, uint8_t *out);

#endif
