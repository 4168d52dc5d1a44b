/* descriptors close_range|loop|dup2: closes or replaces every descriptor by its own file, and continues to
 * work. The file must contain only data that this program wrote. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guests/guest.h"

#define NUMBERS 4200

static void close_by_loop(void) {
    for (int fd = 3; fd < NUMBERS; fd++) close(fd);
}

/* Fills all descriptor numbers from 3 up to the limit. */
static void fill_numbers(int mine) {
    for (int fd = 3; fd < NUMBERS; fd++)
        if (fd != mine && fcntl(fd, F_GETFD) < 0) fcntl(mine, F_DUPFD, fd);
}

/* Replaces every open descriptor except the standard ones and `mine`. */
static void replace_by_dup2(int mine) {
    for (int fd = 3; fd < NUMBERS; fd++)
        if (fd != mine && fcntl(fd, F_GETFD) >= 0) dup2(mine, fd);
}

static void work(int n) {
    for (int i = 0; i < n; i++) {
        guest_push("range");
        guest_kernels(1);
        guest_pop();
    }
    usleep(300000); /* longer than the writer's flush interval */
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    guest_cuda();
    work(50);
    if (strcmp(how, "close_range") == 0) syscall(SYS_close_range, 3u, ~0u, 0u);
    if (strcmp(how, "loop") == 0) close_by_loop();
    int mine = open("mine.txt", O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (mine < 0 || write(mine, "first line\n", 11) != 11) guest_fail("mine.txt: %s", strerror(errno));
    if (strcmp(how, "dup2") == 0)
        replace_by_dup2(mine);
    else
        fill_numbers(mine);
    work(50);
    if (write(mine, "last line\n", 10) != 10) guest_fail("mine.txt: %s", strerror(errno));
    return 0;
}
