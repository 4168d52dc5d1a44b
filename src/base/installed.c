#include "base/installed.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/util.h"

struct place {
    const char *folder; /* relative to the program's folder */
    bool build_only;
};

static const struct place places[] = {
    { ".", true }, { "../lib/inferprof", false }, { ".", false }, { "..", true }, { "../..", true },
};

static bool is_trusted_owner(uid_t owner, uid_t program_owner) {
    return owner == 0 || owner == geteuid() || owner == program_owner;
}

/* NULL: the file is trusted */
static const char *distrust_of(const char *path, uid_t program_owner) {
    struct stat st;
    if (stat(path, &st) < 0) return "cannot be examined";
    if (!is_trusted_owner(st.st_uid, program_owner)) return "belongs to another user";
    if (st.st_mode & S_IWOTH) return "is writable for all users";
    return NULL;
}

static bool holds(const char *folder, const char *path) {
    size_t n = strlen(folder);
    return strncmp(folder, path, n) == 0 && (path[n] == '/' || path[n] == '\0' || n == 1);
}

/* Checks a real path and its folders, up to the first folder that also contains the program. A user who can
 * write above that folder can replace the program itself. */
static bool is_trusted(const char *path, const char *program_dir, uid_t program_owner, struct err *err) {
    char *at = xstrdup(path);
    const char *why = distrust_of(at, program_owner);
    bool done = why != NULL;
    while (!done) {
        char *slash = strrchr(at, '/');
        if (!slash) break;
        slash[slash == at] = '\0';
        why = distrust_of(at, program_owner);
        done = why || holds(at, program_dir) || strcmp(at, "/") == 0;
    }
    if (why) err_set(err, "%s was not used: %s %s", path, at, why);
    free(at);
    return !why;
}

static bool is_build_folder(const char *dir, uid_t program_owner) {
    struct err ignored;
    char *marker = file_join(dir, INSTALLED_BUILD_MARKER);
    bool yes = file_exists(marker) && is_trusted(marker, dir, program_owner, &ignored);
    free(marker);
    return yes;
}

static char *find_in(const char *dir, const char *folder, const char *name, uid_t owner, struct err *err) {
    char *path = xasprintf("%s/%s/%s", dir, folder, name), *real = realpath(path, NULL);
    if (real && !is_trusted(real, dir, owner, err)) {
        free(real);
        real = NULL;
    }
    free(path);
    return real;
}

char *installed_find_for(const char *program, const char *name, struct err *err) {
    char *real = realpath(program, NULL), *slash = real ? strrchr(real, '/') : NULL, *found = NULL;
    struct stat st;
    if (!slash || stat(real, &st) < 0) {
        err_set(err, "%s was not found: the path of this program is unknown", name);
        free(real);
        return NULL;
    }
    *slash = '\0';
    bool in_build = is_build_folder(real, st.st_uid);
    err_set(err,
            "%s was not found in %s/../lib/inferprof or %s; install it (make install), or run from the build "
            "folder",
            name, real, real);
    for (size_t i = 0; !found && i < COUNTOF(places); i++)
        if (in_build || !places[i].build_only) found = find_in(real, places[i].folder, name, st.st_uid, err);
    free(real);
    return found;
}

char *installed_find(const char *name, struct err *err) {
    char *self = file_self();
    char *found = installed_find_for(self ? self : "", name, err);
    free(self);
    return found;
}
