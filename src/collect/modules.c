#include "collect/modules.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define FORK_WAIT_MS 50

static atomic_uint visiting, forking;

bool modules_visit(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg) {
    atomic_fetch_add(&visiting, 1);
    bool allowed = atomic_load(&forking) == 0;
    if (allowed) dl_iterate_phdr(visit, arg);
    atomic_fetch_sub(&visiting, 1);
    return allowed;
}

struct wanted {
    const char *prefix;
    char path[PATH_MAX];
};

static int find_module(struct dl_phdr_info *info, size_t size, void *arg) {
    struct wanted *w = arg;
    (void)size;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || strncmp(slash + 1, w->prefix, strlen(w->prefix)) != 0) return 0;
    size_t n = strlen(info->dlpi_name);
    if (n < sizeof w->path) memcpy(w->path, info->dlpi_name, n + 1);
    return 1;
}

/* The path is the loader's own name of the module, so dlopen() searches no folders. */
void *modules_find(const char *prefix) {
    struct wanted w = { .prefix = prefix };
    if (!modules_visit(find_module, &w) || !w.path[0]) return NULL;
    return dlopen(w.path, RTLD_LAZY | RTLD_NOLOAD);
}

/* ---- forks */

void modules_before_fork(void) {
    int saved_errno = errno;
    atomic_fetch_add(&forking, 1);
    for (unsigned i = 0; i < FORK_WAIT_MS * 10 && atomic_load(&visiting); i++)
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    errno = saved_errno;
}

void modules_after_parent_fork(void) { atomic_fetch_sub(&forking, 1); }

void modules_after_fork(void) {
    atomic_store(&forking, 0);
    atomic_store(&visiting, 0);
}
