/* The description of a model in a weight file: names, types and shapes of its tensors, and the short values
 * of its metadata. Weights, vocabularies and templates are skipped. Runs on a thread of the collector; reads
 * at most 64 MiB of a file. */
#ifndef COLLECT_MODEL_HEAD_H
#define COLLECT_MODEL_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_HEAD_BYTES ((size_t)1 << 20) /* longest description that is kept */

/* A file, or a part of our own memory into which a file is mapped from its first byte. */
struct model_source {
    int fd;        /* descriptor of the file, or of /proc/self/mem */
    uint64_t base; /* offset of the file's first byte in fd */
    uint64_t size; /* bytes that may be read */
};

enum model_format { MODEL_UNKNOWN, MODEL_GGUF, MODEL_SAFETENSORS };

/* Result of model_head_read(). The description of a GGUF file is again in GGUF format, with the kept
 * values and the names, types, shapes and offsets of the tensors, but no data. That of a safetensors file
 * is its JSON header. */
struct model_head {
    enum model_format format;
    size_t bytes;
    bool incomplete; /* longer than MODEL_HEAD_BYTES: tensors are missing (GGUF only), or bytes is 0 */
};

/* Writes the description to `out`, which has room for MODEL_HEAD_BYTES. The result's format is
 * MODEL_UNKNOWN if the file has neither format, is damaged or cannot be read. */
struct model_head model_head_read(const struct model_source *s, uint8_t *out);

#endif
