/* File helpers. file_write_atomic() and file_atomic_commit() replace a file at once: a reader never sees a
 * partial file. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "base/strbuf.h"

extern int file_pipe_wait_ms; /* longest wait for a writer of a pipe */
/* Appends the whole file to `out`. A pipe without a writer is empty. Fails for folders, for files larger than
 * max_bytes, and for pipes whose writer writes nothing. */
int file_read(const char *path, size_t max_bytes, struct strbuf *out, struct err *err);

/* Opens a regular file for reading. Fails for folders, pipes and devices. Returns a descriptor, or -1. */
int file_open_regular(const char *path, struct err *err);

/* Fails if `path` is a device, pipe or socket, which rename() would replace. */
int file_may_replace(const char *path, struct err *err);

/* Creates PATH.tmp.<random> with the user's umask. Returns a descriptor, or -1 with errno. The caller frees
 * *temporary and calls scratch_forget(*scratch). */
int file_make_temporary(const char *path, char **temporary, int *scratch);
/* Like file_make_temporary(), for a folder PREFIX-<random> in $TMPDIR (default: /tmp) that only the user can
 * read. Returns 0 or -1. */
int file_make_temporary_dir(const char *prefix, char **dir, int *scratch);

/* Writes a temporary file in the same folder and renames it to `path`. */
int file_write_atomic(const char *path, const void *data, size_t n, struct err *err);

/* Like file_write_atomic(), for output in pieces:
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
char *file_join(const char *dir, const char *name); /* caller frees */
const char *file_basename(const char *path);        /* borrowed from path */
/* Returns true if the path has the ending. False for the ending itself, such as ".json". */
bool file_has_ending(const char *path, const char *ending);
/* Length of the path without `ending`, or the full length if the path does not have it. */
size_t file_stem_bytes(const char *path, const char *ending);
char *file_self(void); /* running program; NULL: unknown; caller frees */

#endif
