#include "base/embed.h"

#include <string.h>

const struct embed_file *embed_find(const char *path) {
    for (size_t i = 0; i < embed_files_n; i++)
        if (strcmp(embed_files[i].path, path) == 0) return &embed_files[i];
    return NULL;
}
