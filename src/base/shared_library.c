#include "base/shared_library.h"

#include <dlfcn.h>
#include <string.h>

int library_load(const char *soname, const char *package, const struct library_function *rows, size_t n,
                 struct err *err) {
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (!library) return err_set(err, "cannot load %s; install the package %s", soname, package);
    for (size_t i = 0; i < n; i++) {
        void *f = dlsym(library, rows[i].name);
        if (!f) {
            dlclose(library);
            return err_set(err, "%s has no %s; install a newer %s", soname, rows[i].name, package);
        }
        memcpy(rows[i].pointer, &f, sizeof f);
    }
    return 0;
}
