/* daemon: becomes a daemon in the usual way (two forks, a session, chdir, all descriptors closed), then
 * works for a second and writes daemon.txt into the folder where it was started. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guests/guest.h"

static void fork_and_leave(void) {
    pid_t pid = fork();
    if (pid < 0) guest_fail("fork: %s", strerror(errno));
    if (pid > 0) exit(0);
}

int main(void) {
    char path[PATH_MAX];
    if (!getcwd(path, sizeof path - 16)) return 1;
    strcat(path, "/daemon.txt");
    guest_push("before");
    guest_pop();
    puts("started");
    fflush(stdout);
    fork_and_leave();
    setsid();
    fork_and_leave();
    if (chdir("/") != 0) return 1;
    umask(022);
    for (int fd = 0; fd < 4200; fd++) close(fd);
    guest_cuda();
    guest_push("in the daemon");
    guest_kernels(10);
    usleep(1000000);
    guest_pop();
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd != 0) return 1; /* must be the lowest free number, as without the collector */
    return write(fd, "from the daemon\n", 16) == 16 ? 0 : 1;
}
