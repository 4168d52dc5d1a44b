#include "base/private_fds.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define MOST_FDS (1u << 20)
#define UNSHARE 2u /* CLOSE_RANGE_UNSHARE */

/* Sanitizers write to standard error from any thread. It stays open in their builds. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEEP_STDERR 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KEEP_STDERR 1
#endif
#endif

#ifdef KEEP_STDERR
static bool is_kept(unsigned fd) { return fd == STDERR_FILENO; }
#else
static bool is_kept(unsigned fd) {
    (void)fd;
    return false;
}
#endif

/* Copies the table and closes the copies, so that no pipe or socket of the program stays open. */
static bool unshare_and_close(void) {
    if (is_kept(STDERR_FILENO))
        return syscall(SYS_close_range, 3u, ~0u, UNSHARE) == 0 && syscall(SYS_close_range, 0u, 1u, 0u) == 0;
    return syscall(SYS_close_range, 0u, ~0u, UNSHARE) == 0;
}

/* Upper limit of the descriptor numbers in use: the kernel's table size ("FDSize:\t256"), or the limit of
 * open files. */
static unsigned table_size(void) {
    char text[4096];
    struct rlimit limit;
    int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *line = strstr(text, "\nFDSize:");
    if (line) return (unsigned)strtoul(line + sizeof "\nFDSize:" - 1, NULL, 10);
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < MOST_FDS ? (unsigned)limit.rlim_cur
                                                                              : MOST_FDS;
}

/* For Linux before 5.9, and for system call filters without close_range(). */
static bool unshare_then_close(void) {
    if (unshare(CLONE_FILES) != 0) return false;
    unsigned n = table_size();
    for (unsigned fd = 0; fd < n; fd++)
        if (!is_kept(fd)) close((int)fd);
    return true;
}

bool private_fds(void) { return unshare_and_close() || unshare_then_close(); }
