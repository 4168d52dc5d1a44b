#include "trace/reader_files.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool is_listed(const struct strlist *paths, const char *path) {
    struct stat a, b;
    if (stat(path, &a) < 0) return false; /* opening will report the reason */
    for (size_t i = 0; i < paths->n; i++)
        if (stat(paths->v[i], &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino) return true;
    return false;
}

/* Returns false if the folder contains no traces at all, new or already listed. */
static bool add_folder(struct strlist *paths, const char *dir) {
    DIR *d = opendir(dir);
    size_t first = paths->n;
    bool any = false;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!file_has_ending(e->d_name, ".ipt")) continue;
        char *path = file_join(dir, e->d_name);
        any = true;
        if (!is_listed(paths, path)) strlist_add(paths, "%s", path);
        free(path);
    }
    if (d) closedir(d);
    if (paths->n > first) qsort(paths->v + first, paths->n - first, sizeof *paths->v, by_name);
    return any;
}

bool trace_files_add(struct strlist *paths, const char *operand) {
    if (!file_is_dir(operand)) {
        if (!is_listed(paths, operand)) strlist_add(paths, "%s", operand);
        return true;
    }
    char *inner = file_join(operand, "trace");
    bool any = add_folder(paths, inner) || add_folder(paths, operand);
    free(inner);
    return any;
}
