/* Files, whole and safe: a reader sees the old file or the new one, never half of either. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "base/strbuf.h"

/* Appends the whole file to `out`; refuses what is larger than max_bytes, folders and unreadable files. */
int file_read(const char *path, size_t max_bytes, struct strbuf *out, struct err *err);

/* Fails where renaming a finished file onto `path` would put a device, pipe or socket out of the world. */
int file_may_replace(const char *path, struct err *err);

/* Writes to a temporary beside `path` and renames. On failure nothing of it remains. */
int file_write_atomic(const char *path, const void *data, size_t n, struct err *err);

/* The same for output that is produced piece by piece:
 *     struct file_atomic f;
 *     if (file_atomic_open(&f, path, &err) < 0) ...
 *     fprintf(f.out, ...);
 *     file_atomic_commit(&f, &err);          -- or file_atomic_abort(&f) */
struct file_atomic {
    FILE *out;
    char *path, *temporary;
    int scratch;
};
int file_atomic_open(struct file_atomic *f, const char *path, struct err *err);
int file_atomic_commit(struct file_atomic *f, struct err *err);
void file_atomic_abort(struct file_atomic *f);

int file_mkdirs(const char *path, struct err *err); /* mkdir -p */
bool file_exists(const char *path);
bool file_is_dir(const char *path);
char *file_join(const char *dir, const char *name);         /* caller frees */
const char *file_basename(const char *path);                /* borrowed from path */
bool file_has_ending(const char *path, const char *ending); /* ".json", behind something */
/* How much of path is left without the ending; all of it where it has another. */
size_t file_stem_bytes(const char *path, const char *ending);
/* A file that comes with the program: beside it as built, unpacked or installed. Caller frees; NULL:
 * nowhere. */
char *file_beside_program(const char *name);
char *file_self(void);     /* the running program; caller frees; NULL */
char *file_self_dir(void); /* its folder */

#endif
