/* Library to preload that simulates a disk that hangs. With STUCK=open, opening a file of ours never
 * returns; with STUCK=late it takes 1.6 s; with STUCK=N, the Nth and later writes to it do not return. Only
 * the writer of a trace uses pwrite() and pwritev() in these programs. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static atomic_long writes;

static void hang_for_ever(void) {
    for (;;) pause();
}

static void count_write(void) {
    const char *stuck = getenv("STUCK");
    if (stuck && *stuck >= '0' && *stuck <= '9' && atomic_fetch_add(&writes, 1) + 1 >= atol(stuck))
        hang_for_ever();
}

EXPORT int open(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    const char *stuck = getenv("STUCK"), *suffix = strrchr(path, '.');
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (stuck && suffix && (strcmp(suffix, ".ipt") == 0 || strcmp(suffix, ".problem") == 0)) {
        if (*stuck == 'o') hang_for_ever();
        if (*stuck == 'l') usleep(1600000);
    }
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "open");
    return real(path, flags, mode);
}

EXPORT ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    static ssize_t (*real)(int, const void *, size_t, off_t);
    count_write();
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pwrite");
    return real(fd, data, n, at);
}

EXPORT ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at) {
    static ssize_t (*real)(int, const struct iovec *, int, off_t);
    count_write();
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pwritev");
    return real(fd, parts, n, at);
}
