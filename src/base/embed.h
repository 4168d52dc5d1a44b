/* Files compiled into the program: web/, conf/ and samples/, found by their path in the source tree, and the
 * GPU kernels (cuda/NAME.fatbin).
 *     const struct embed_file *f = embed_find("web/report.css");
 *     fwrite(f->data, 1, embed_bytes(f), out);
 * The table is sorted by path. A NUL follows each file's bytes, so text files can be read as strings. */
#ifndef BASE_EMBED_H
#define BASE_EMBED_H

#include <stddef.h>

struct embed_file {
    const char *path;
    const unsigned char *data, *end;
};

extern const struct embed_file embed_files[];
extern const size_t embed_files_n;

const struct embed_file *embed_find(const char *path); /* NULL: no such file */

static inline size_t embed_bytes(const struct embed_file *f) { return (size_t)(f->end - f->data); }

#endif
