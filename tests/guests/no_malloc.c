/* A library for LD_PRELOAD: between no_malloc(true) and no_malloc(false), a thread that allocates or frees
 * memory ends the process with status 9. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *p);
void no_malloc(bool on);
void *memalign(size_t alignment, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t n, size_t bytes);
void *realloc(void *p, size_t bytes);
void *aligned_alloc(size_t alignment, size_t bytes);
int posix_memalign(void **p, size_t alignment, size_t bytes);
void free(void *p);

static __thread __attribute__((tls_model("initial-exec"))) bool forbidden;

void no_malloc(bool on) { forbidden = on; }

static void check(const char *name) {
    static const char text[] = "() in a signal handler\n";
    if (!forbidden) return;
    if (write(STDERR_FILENO, name, strlen(name)) > 0 && write(STDERR_FILENO, text, sizeof text - 1) > 0)
        _exit(9);
    _exit(8);
}

void *malloc(size_t bytes) {
    check("malloc");
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
    check("calloc");
    return __libc_calloc(n, bytes);
}
void *realloc(void *p, size_t bytes) {
    check("realloc");
    return __libc_realloc(p, bytes);
}
void *memalign(size_t alignment, size_t bytes) {
    check("memalign");
    return __libc_memalign(alignment, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
    check("aligned_alloc");
    return __libc_memalign(alignment, bytes);
}
int posix_memalign(void **p, size_t alignment, size_t bytes) {
    check("posix_memalign");
    *p = __libc_memalign(alignment, bytes);
    return *p ? 0 : ENOMEM;
}
void free(void *p) {
    check("free");
    __libc_free(p);
}
