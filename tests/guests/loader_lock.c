/* loader_lock [LIBRARY]: without the collector. One thread loads LIBRARY in a loop while 50 copies of the
 * process are made by _Fork(); each calls exit(). Prints how many of them hang, because exit() needs a lock
 * that the other thread held (docs/collector-promises.md, Limits). */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define COPIES 50
#define LIMIT_MS 100

static void *load_in_loop(void *library) {
    for (;;) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        if (handle) dlclose(handle);
    }
    return NULL;
}

static bool copy_hangs(void) {
    pid_t pid = _Fork();
    if (pid == 0) exit(0);
    for (int ms = 0; ms < LIMIT_MS; ms++) {
        if (waitpid(pid, NULL, WNOHANG) == pid) return false;
        usleep(1000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return true;
}

int main(int argc, char **argv) {
    pthread_t thread;
    char any[] = "libresolv.so.2";
    int hang = 0;
    pthread_create(&thread, NULL, load_in_loop, argc > 1 ? argv[1] : any);
    usleep(10000);
    for (int i = 0; i < COPIES; i++) hang += copy_hangs();
    printf("%d of %d copies hang in exit()\n", hang, COPIES);
    fflush(stdout);
    _exit(0);
}
