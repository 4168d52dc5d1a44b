/* Maps the safetensors files of a model folder, or a GGUF file with its parts. Finds tensors by name and
 * checks their shapes. Callers use the names of safetensors files; gguf_names.h translates them. */
#ifndef ENGINE_WEIGHTS_FILES_H
#define ENGINE_WEIGHTS_FILES_H

#include <stdbool.h>

#include "base/err.h"
#include "engine/compute/dtype.h"
#include "engine/weights/convert.h"

struct weight_view {
    const void *data; /* points into the mapping; NULL: see `convert` */
    enum dtype type;
    /* Converts `source` to numbers of `type`. NULL: the tensor is used in place. */
    weight_convert *convert;
    struct weight_source source;
    /* Scales of F8_E4M3 and I8, one per scale_rows x scale_cols numbers; NULL: none. */
    const void *scale;
    enum dtype scale_type;
    int scales, scale_rows, scale_cols;
    float scale_factor; /* multiplies the stored scales */
};

struct weight_files;
/* `path`: a folder with safetensors files, or a .gguf file. */
struct weight_files *weight_files_open(const char *path, struct err *err);
void weight_files_close(struct weight_files *f); /* accepts NULL */
/* Finds a tensor; rows 0 means a flat tensor of cols numbers. Returns -1 if the tensor is missing, or has
 * another size or an unsupported type. */
int weight_files_find(const struct weight_files *f, const char *name, int rows, int cols,
                      struct weight_view *out, struct err *err);

bool weight_files_are_gguf(const struct weight_files *f);
bool weight_files_has(const struct weight_files *f, const char *name);

#endif
