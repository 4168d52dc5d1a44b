/* The safetensors files of a model folder, or a GGUF file with its parts, mapped: tensors by name, with a
 * check of their shapes. Names are those of safetensors files; gguf_names.h translates them. */
#ifndef ENGINE_WEIGHTS_FILES_H
#define ENGINE_WEIGHTS_FILES_H

#include <stdbool.h>

#include "base/err.h"
#include "engine/compute/dtype.h"

struct weight_view {
    const void *data; /* into the mapping */
    enum dtype type;
};

struct weight_files;
/* `path`: a folder with safetensors files, or a .gguf file. */
struct weight_files *weight_files_open(const char *path, struct err *err);
void weight_files_close(struct weight_files *f); /* NULL: nothing */
/* rows 0: a flat tensor of cols numbers. -1: missing, another size, or of a type that is not supported. */
int weight_files_find(const struct weight_files *f, const char *name, int rows, int cols,
                      struct weight_view *out, struct err *err);

bool weight_files_are_gguf(const struct weight_files *f);
bool weight_files_has(const struct weight_files *f, const char *name);

#endif
