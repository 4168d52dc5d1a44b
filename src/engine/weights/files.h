/* The safetensors files of a model folder, mapped into memory: finds tensors by name and checks their
 * shapes. */
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
struct weight_files *weight_files_open(const char *dir, struct err *err);
void weight_files_close(struct weight_files *f); /* NULL: nothing */
/* rows 0: a flat tensor with cols elements. Returns -1 if it is missing, has another size, or is not a
 * float type. */
int weight_files_find(const struct weight_files *f, const char *name, int rows, int cols,
                      struct weight_view *out, struct err *err);

#endif
