#include "collect/host.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

__thread struct host_thread host_thread;
lock_limit host_locks;

static struct {
    /* Points to a byte that is 1 in this process. Linux sets the byte to 0 in forked children
     * (MADV_WIPEONFORK). NULL: not supported, or not started. */
    _Atomic(atomic_uchar *) mark;
    atomic_int pid; /* 0: not started */
} process;

void host_start(void) {
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && madvise(page, bytes, MADV_WIPEONFORK) == 0) {
        atomic_store((atomic_uchar *)page, 1);
        atomic_store(&process.mark, page);
    }
    host_after_fork();
}

void host_after_fork(void) {
    atomic_uchar *mark = atomic_load(&process.mark);
    atomic_store(&process.pid, getpid());
    if (mark) atomic_store(mark, 1);
}

static bool has_our_pid(void) {
    int pid = atomic_load(&process.pid);
    return pid == 0 || pid == getpid();
}

bool host_is_our_process(void) {
    atomic_uchar *mark = atomic_load_explicit(&process.mark, memory_order_relaxed);
    return mark ? atomic_load_explicit(mark, memory_order_relaxed) : has_our_pid();
}

bool host_is_exactly_our_process(void) { return host_is_our_process() && has_our_pid(); }

bool host_enter(int *saved_errno) {
    *saved_errno = errno;
    if (host_thread.depth || !host_is_our_process()) return false;
    host_thread.depth++;
    return true;
}

void host_leave(int saved_errno) {
    host_thread.depth--;
    errno = saved_errno;
}
