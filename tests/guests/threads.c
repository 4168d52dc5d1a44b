/* threads N STACK_KIB: N threads that exist at the same time make their first NVTX call on a stack of this
 * size. The first of them opens the trace. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guests/guest.h"

static pthread_barrier_t all_ready;

static void *work(void *arg) {
    (void)arg;
    pthread_barrier_wait(&all_ready);
    guest_push("range of a thread");
    guest_mark_wide(L"mark");
    guest_name_thread((unsigned)syscall(SYS_gettid), "a thread with a name of its own");
    guest_pop();
    return NULL;
}

int main(int argc, char **argv) {
    unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    size_t stack_bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 64) << 10;
    pthread_t *threads = calloc(n, sizeof *threads);
    pthread_attr_t attr;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    stack_bytes += (size_t)256 << 10; /* frames of sanitized code are several times as large */
#endif
    pthread_attr_init(&attr);
    int rc = pthread_attr_setstacksize(&attr, stack_bytes);
    pthread_barrier_init(&all_ready, NULL, n);
    for (unsigned i = 0; rc == 0 && i < n; i++) rc = pthread_create(&threads[i], &attr, work, NULL);
    if (rc != 0) guest_fail("a thread: %s", strerror(rc));
    for (unsigned i = 0; i < n; i++) pthread_join(threads[i], NULL);
    free(threads);
    printf("%u threads ended\n", n);
    return 0;
}
