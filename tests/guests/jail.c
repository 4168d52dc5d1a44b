/* jail FOLDER: changes its root to the folder and works there, and so does a child. Requires root. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guests/guest.h"

static void work(const char *name, int kernels) {
    for (int i = 0; i < 20; i++) {
        guest_push(name);
        guest_kernels(kernels);
        guest_pop();
    }
}

int main(int argc, char **argv) {
    int status;
    guest_cuda();
    work("outside", 1);
    if (argc < 2 || chroot(argv[1]) != 0 || chdir("/") != 0) guest_fail("chroot: %s", strerror(errno));
    work("inside", 1);
    pid_t pid = fork();
    if (pid == 0) {
        work("child", 0);
        exit(4);
    }
    waitpid(pid, &status, 0);
    FILE *f = fopen("/from-the-jail.txt", "wx");
    if (f) {
        fprintf(f, "child ended with %d\n", WEXITSTATUS(status));
        fclose(f);
    }
    return f ? 0 : 1;
}
