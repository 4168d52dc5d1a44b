/* context: checks that a program's own context is the same as without the collector: errno after every
 * call, the signal mask, the thread that runs a handler, the number of the next descriptor, the list of
 * open descriptors. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guests/guest.h"

static volatile sig_atomic_t handler_thread;
static void on_signal(int number) {
    (void)number;
    handler_thread = (sig_atomic_t)syscall(SYS_gettid);
}

static void check_errno(const char *after) {
    if (errno != ERANGE) guest_fail("errno is %d after %s", errno, after);
}

static void *work(void *arg) {
    (void)arg;
    errno = ERANGE;
    guest_push("range");
    check_errno("a push");
    guest_kernels(2000); /* registers the thread and drains its ring */
    check_errno("launches");
    guest_mark_wide(L"mark");
    check_errno("a mark");
    guest_name_thread(1, "name");
    check_errno("a name");
    guest_pop();
    check_errno("a pop");
    return NULL;
}

static void list_fds(void) {
    int numbers[256], n = 0;
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        int fd = atoi(e->d_name);
        if (e->d_name[0] != '.' && fd != dirfd(d) && n < 256) numbers[n++] = fd;
    }
    closedir(d);
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            if (numbers[b] < numbers[a]) {
                int swap = numbers[a];
                numbers[a] = numbers[b];
                numbers[b] = swap;
            }
    printf("open:");
    for (int i = 0; i < n; i++) printf(" %d", numbers[i]);
    putchar('\n');
}

/* The signal is blocked on this thread, so it would go to any other thread that accepts it: there must be
 * none. */
static void check_signals(void) {
    sigset_t usr1, now;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    kill(getpid(), SIGUSR1);
    usleep(100000);
    if (handler_thread) guest_fail("a handler ran on a thread that is not the program's");
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    if (handler_thread != (sig_atomic_t)syscall(SYS_gettid)) guest_fail("the handler did not run");
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    for (int s = 1; s < 32; s++)
        if (sigismember(&now, s)) printf("blocked: %d\n", s);
}

int main(void) {
    pthread_t thread;
    struct sigaction act = { .sa_handler = on_signal };
    sigaction(SIGUSR1, &act, NULL);
    errno = ERANGE;
    guest_push("first");
    check_errno("the first call");
    guest_pop();
    guest_cuda();
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    work(NULL);
    check_signals();
    list_fds();
    int fd = open("/dev/null", O_RDONLY);
    printf("next: %d\n", fd);
    return 0;
}
