/* sandbox [nofile=N] [fsize=N] [as=N] [noclose_range] [nounshare] [nothreads] -- PROGRAM ARGS: runs it with
 * these limits; "no" ones are system calls that fail, as in a container's filter. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guests/guest.h"

static void forbid(unsigned number, unsigned error) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof code[0], code };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) guest_fail("seccomp: %s", strerror(errno));
}

static int resource_of(const char *word, size_t len) {
    if (strncmp(word, "nofile", len) == 0) return RLIMIT_NOFILE;
    if (strncmp(word, "fsize", len) == 0) return RLIMIT_FSIZE;
    if (strncmp(word, "as", len) == 0) return RLIMIT_AS;
    guest_fail("no such limit: %s", word);
}

static void limit(const char *word) {
    size_t len = strcspn(word, "=");
    rlim_t n = strtoull(word + len + 1, NULL, 10);
    if (setrlimit(resource_of(word, len), &(struct rlimit){ n, n }) != 0)
        guest_fail("%s: %s", word, strerror(errno));
}

int main(int argc, char **argv) {
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "noclose_range") == 0) {
            forbid(SYS_close_range, ENOSYS);
        } else if (strcmp(argv[i], "nounshare") == 0) {
            forbid(SYS_unshare, EPERM);
        } else if (strcmp(argv[i], "nothreads") == 0) {
            forbid(SYS_clone3, ENOSYS);
            forbid(SYS_clone, EAGAIN);
        } else {
            limit(argv[i]);
        }
    }
    if (i + 1 >= argc) guest_fail("no program");
    execvp(argv[i + 1], argv + i + 1);
    guest_fail("%s: %s", argv[i + 1], strerror(errno));
}
