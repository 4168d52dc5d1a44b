#include "base/private_fds.h"

#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define UNSHARE 2u /* CLOSE_RANGE_UNSHARE; older headers do not define it */

/* Sanitizers report to standard error from any thread, so it stays open in their builds. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEEP_STDERR 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KEEP_STDERR 1
#endif
#endif

/* One system call copies the table and closes the copies, so that we do not keep any pipe or socket of the
 * program open. */
bool private_fds(void) {
#ifdef KEEP_STDERR
    return syscall(SYS_close_range, 3u, ~0u, UNSHARE) == 0 && syscall(SYS_close_range, 0u, 1u, 0u) == 0;
#else
    return syscall(SYS_close_range, 0u, ~0u, UNSHARE) == 0;
#endif
}
