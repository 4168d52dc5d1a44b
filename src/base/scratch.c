#include "base/scratch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/die.h"
#include "base/util.h"

static const int watched[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU };
static char *volatile paths[64]; /* read by the signal handler */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

/* Signal handler: async-signal-safe functions only. */
static void remove_all(int sig) {
    int saved = errno;
    for (size_t i = COUNTOF(paths); i-- > 0;)
        if (paths[i] && unlink(paths[i]) < 0) rmdir(paths[i]);
    errno = saved;
    raise(sig); /* terminates: SA_RESETHAND */
}

static void install_handlers(void) {
    struct sigaction now, on = { .sa_handler = remove_all, .sa_flags = (int)SA_RESETHAND };
    sigemptyset(&on.sa_mask);
    for (size_t i = 0; i < COUNTOF(watched); i++)
        if (sigaction(watched[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            sigaction(watched[i], &on, NULL);
}

int scratch_add(const char *path) {
    int slot = -1;
    pthread_once(&installed, install_handlers);
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < COUNTOF(paths) && slot < 0; i++)
        if (!paths[i]) paths[slot = (int)i] = xstrdup(path);
    pthread_mutex_unlock(&lock);
    return slot;
}

void scratch_forget(int slot) {
    if (slot < 0) return;
    pthread_mutex_lock(&lock);
    char *old = paths[slot];
    paths[slot] = NULL;
    pthread_mutex_unlock(&lock);
    free(old);
}
