#include "session/run_dir.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/units.h"

#define MAX_RUNS_PER_NAME 10000

char *run_dir_default_id(uint64_t wall_ns, const char *model) {
    char when[32];
    char *id = xasprintf("%s-%.80s", clock_format(wall_ns, "%Y%m%d-%H%M%S", 0, when, sizeof when), model);
    for (char *p = id; *p; p++)
        if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') && !(*p >= '0' && *p <= '9') &&
            !strchr("-_.", *p))
            *p = '_';
    return id;
}

int run_dir_mark(const char *dir, const char *why, struct err *err) {
    char *path = file_join(dir, RUN_DIR_MARKER);
    int rc = file_write_atomic(path, why, strlen(why), err);
    free(path);
    return rc;
}

char *run_dir_create(const char *out, const char *id, struct err *err) {
    if (file_mkdirs(out, err) < 0) return NULL;
    for (int i = 1; i < MAX_RUNS_PER_NAME; i++) {
        char *dir = i == 1 ? file_join(out, id) : xasprintf("%s/%s-%d", out, id, i);
        /* no separate existence check, so that concurrent runs get different folders */
        if (mkdir(dir, 0777) == 0) {
            if (run_dir_mark(dir, "This run has not finished: it is still running, or it was killed.\n",
                             err) == 0)
                return dir;
            rmdir(dir);
            free(dir);
            return NULL;
        }
        int why = errno;
        if (why != EEXIST) {
            err_set(err, "%s: %s", dir, strerror(why));
            free(dir);
            return NULL;
        }
        free(dir);
    }
    err_set(err, "%s/%s: already exists, with %d numbered names after it", out, id, MAX_RUNS_PER_NAME);
    return NULL;
}

int run_dir_complete(const char *dir, struct err *err) {
    char *path = file_join(dir, RUN_DIR_MARKER);
    int rc = unlink(path) < 0 && errno != ENOENT ? err_set(err, "%s: %s", path, strerror(errno)) : 0;
    free(path);
    return rc;
}

int run_dir_write(const char *dir, const char *name, const char *text, size_t n, struct err *err) {
    char *path = file_join(dir, name);
    int rc = file_write_atomic(path, text, n, err);
    free(path);
    return rc;
}

/* Returns `path`, or its nearest existing parent folder. The caller frees it. */
static char *existing_parent(const char *path) {
    char *p = xstrdup(path);
    while (!file_exists(p)) {
        char *slash = strrchr(p, '/');
        if (!slash || slash == p) {
            free(p);
            return xstrdup(slash ? "/" : ".");
        }
        *slash = '\0';
    }
    return p;
}

void run_dir_check(const char *out, uint64_t min_free_bytes, struct strlist *errors) {
    char *at = existing_parent(out);
    struct statvfs fs;
    if (!file_is_dir(at)) {
        strlist_add(errors, "output.dir=%s: %s is a file, not a folder", out, at);
    } else if (access(at, W_OK | X_OK) < 0) {
        strlist_add(errors, "output.dir=%s: cannot write to %s: %s; choose another with output.dir=DIR", out,
                    at, strerror(errno));
    } else if (statvfs(at, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < min_free_bytes) {
        char have[32], want[32];
        strlist_add(errors, "output.dir=%s: %s free, %s required (output.min_free_mb)", out,
                    units_bytes((double)fs.f_bavail * (double)fs.f_frsize, have, sizeof have),
                    units_bytes((double)min_free_bytes, want, sizeof want));
    }
    free(at);
}
