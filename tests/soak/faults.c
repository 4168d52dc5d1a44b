/* A disk with faults, to preload. Calls on files below FAULTS_DIR fail, are cut short or take long; all other
 * calls are passed on. The same values choose the same faults for the same sequence of calls.
 *     FAULTS_DIR    folder, absolute
 *     FAULTS_SEED   number
 *     FAULTS_PPM    faults per million calls
 *     FAULTS_HANG   per million faults: calls that never return (the others delay at most 40 ms)
 *     FAULTS_COUNT  file of one 64-bit number, to which each fault adds one */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define NONE 0
#define CUT_SHORT (-1)

static char dir[PATH_MAX];
static uint64_t seed, ppm, hang_ppm;
static atomic_ullong calls, *count;

static uint64_t number_of(const char *name) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void read_settings(void) {
    const char *path = getenv("FAULTS_COUNT"), *folder = getenv("FAULTS_DIR");
    if (!folder) return;
    seed = number_of("FAULTS_SEED");
    ppm = number_of("FAULTS_PPM");
    hang_ppm = number_of("FAULTS_HANG");
    snprintf(dir, sizeof dir, "%s/", folder);
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED) count = page;
    if (fd >= 0) syscall(SYS_close, fd);
}

/* splitmix64 */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static bool is_below(const char *path) { return *dir && strncmp(path, dir, strlen(dir)) == 0; }

/* thread-self: the collector's threads have a descriptor table of their own. */
static bool fd_is_below(int fd) {
    char link[64], path[PATH_MAX];
    if (!*dir || !ppm) return false;
    snprintf(link, sizeof link, "/proc/thread-self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return false;
    path[n] = '\0';
    return is_below(path);
}

/* A slow disk delays a call after the kernel has found the file of its descriptor. So delays come after the
 * real call. */
static __thread long delay_ns;

static void choose_delay(uint64_t r) {
    if (r % 1000000 < hang_ppm)
        for (;;) pause();
    delay_ns = (long)(mix(r) % 40000000);
}

static ssize_t late(ssize_t result) {
    int saved = errno;
    if (delay_ns) nanosleep(&(struct timespec){ .tv_nsec = delay_ns }, NULL);
    delay_ns = 0;
    errno = saved;
    return result;
}

/* The next call's fault: NONE (it may be late), an errno or CUT_SHORT. */
static int next_fault(void) {
    static const int faults[] = { EIO, ENOSPC, EINTR, EDQUOT, CUT_SHORT, CUT_SHORT, NONE, NONE };
    uint64_t r = mix(seed + atomic_fetch_add(&calls, 1) * 3);
    if (!ppm || r % 1000000 >= ppm) return NONE;
    if (count) atomic_fetch_add(count, 1);
    int fault = faults[mix(r) % (sizeof faults / sizeof faults[0])];
    if (fault == NONE) choose_delay(mix(r + 1));
    return fault;
}

/* The same for a call that cannot be cut short. True: the call fails, errno is set. */
static bool fails(bool ours) {
    int saved = errno, fault = ours ? next_fault() : NONE;
    errno = fault > 0 ? fault : saved;
    return fault > 0;
}

/* The bytes that a write of n may write; -1: it fails, errno is set. */
static ssize_t allowed(int fd, size_t n) {
    int saved = errno, fault = fd_is_below(fd) ? next_fault() : NONE;
    errno = saved;
    if (fault == NONE) return (ssize_t)n;
    if (fault == CUT_SHORT) return (ssize_t)(n / 2);
    errno = fault;
    return -1;
}

static void find(void *f, const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(f, &found, sizeof found);
}

#define REAL(type, name, ...)                \
    static type (*real_##name)(__VA_ARGS__); \
    if (!real_##name) find(&real_##name, #name)

static mode_t mode_of(int flags, va_list ap) { return flags & O_CREAT ? va_arg(ap, mode_t) : 0; }

#define OPEN(name)                                        \
    EXPORT int name(const char *path, int flags, ...) {   \
        REAL(int, name, const char *, int, ...);          \
        va_list ap;                                       \
        va_start(ap, flags);                              \
        mode_t mode = mode_of(flags, ap);                 \
        va_end(ap);                                       \
        if (fails(ppm != 0 && is_below(path))) return -1; \
        return late(real_##name(path, flags, mode));      \
    }
OPEN(open)
OPEN(open64)

EXPORT ssize_t write(int fd, const void *data, size_t n) {
    REAL(ssize_t, write, int, const void *, size_t);
    ssize_t some = allowed(fd, n);
    return some < 0 ? -1 : late(real_write(fd, data, (size_t)some));
}

#define PWRITE(name)                                                          \
    EXPORT ssize_t name(int fd, const void *data, size_t n, off_t at) {       \
        REAL(ssize_t, name, int, const void *, size_t, off_t);                \
        ssize_t some = allowed(fd, n);                                        \
        return some < 0 ? -1 : late(real_##name(fd, data, (size_t)some, at)); \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

/* A short write ends inside the first or the last part. */
#define PWRITEV(name)                                                                               \
    EXPORT ssize_t name(int fd, const struct iovec *parts, int n, off_t at) {                       \
        REAL(ssize_t, name, int, const struct iovec *, int, off_t);                                 \
        ssize_t last = n > 0 ? (ssize_t)parts[n - 1].iov_len : 0, some = allowed(fd, (size_t)last); \
        if (some < 0) return -1;                                                                    \
        if (some == last || n > 8) return late(real_##name(fd, parts, n, at));                      \
        struct iovec cut[8];                                                                        \
        memcpy(cut, parts, (size_t)n * sizeof *cut);                                                \
        cut[n - 1].iov_len = (size_t)some;                                                          \
        return late(real_##name(fd, cut, n, at));                                                   \
    }
PWRITEV(pwritev)
PWRITEV(pwritev64)

EXPORT int fsync(int fd) {
    REAL(int, fsync, int);
    return fails(fd_is_below(fd)) ? -1 : (int)late(real_fsync(fd));
}

EXPORT int fdatasync(int fd) {
    REAL(int, fdatasync, int);
    return fails(fd_is_below(fd)) ? -1 : (int)late(real_fdatasync(fd));
}

EXPORT int ftruncate(int fd, off_t n) {
    REAL(int, ftruncate, int, off_t);
    return fails(fd_is_below(fd)) ? -1 : (int)late(real_ftruncate(fd, n));
}

EXPORT int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    return fails(is_below(to)) ? -1 : (int)late(real_rename(from, to));
}

EXPORT int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    return fails(is_below(path)) ? -1 : (int)late(real_mkdir(path, mode));
}

/* The file is closed in any case, as by a real fclose() that could not write its buffer. */
EXPORT int fclose(FILE *f) {
    REAL(int, fclose, FILE *);
    bool ours = fd_is_below(fileno(f)), failed = fails(ours);
    int fault = errno, rc = (int)late(real_fclose(f));
    if (!failed) return rc;
    errno = fault;
    return EOF;
}

EXPORT int mkostemp(char *path, int flags) {
    REAL(int, mkostemp, char *, int);
    return fails(is_below(path)) ? -1 : (int)late(real_mkostemp(path, flags));
}
