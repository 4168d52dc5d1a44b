#include "base/notice.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FLAGS (SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK)

/* The kernel chooses an unused abstract name: a NUL and some characters. `name` gets the characters. */
int notice_open(char name[NOTICE_NAME_BYTES]) {
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    socklen_t n = sizeof a;
    int fd = socket(AF_UNIX, FLAGS, 0), on = 1;
    if (fd < 0) return -1;
    if (bind(fd, (const struct sockaddr *)(const void *)&a, sizeof a.sun_family) == 0 &&
        getsockname(fd, (struct sockaddr *)(void *)&a, &n) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0) {
        size_t len = n > sizeof a.sun_family + 1 ? n - sizeof a.sun_family - 1 : 0;
        if (len > 0 && len < NOTICE_NAME_BYTES) {
            memcpy(name, a.sun_path + 1, len);
            name[len] = '\0';
            return fd;
        }
    }
    close(fd);
    return -1;
}

/* Any user can send to an abstract name. The kernel adds the sender's user id. Only this user and root are
 * accepted. */
static bool is_own_message(struct msghdr *m) {
    struct ucred who;
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) return false;
    memcpy(&who, CMSG_DATA(c), sizeof who);
    return who.uid == geteuid() || who.uid == 0;
}

bool notice_receive(int fd, char text[NOTICE_TEXT_BYTES]) {
    for (;;) {
        union {
            char bytes[CMSG_SPACE(sizeof(struct ucred))];
            struct cmsghdr align;
        } control;
        struct iovec part = { text, NOTICE_TEXT_BYTES - 1 };
        struct msghdr m = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
        };
        ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);
        if (n < 0) return false;
        text[n] = '\0';
        if (is_own_message(&m)) return true;
    }
}

void notice_send(const char *name, const char *text) {
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    size_t len = strlen(name);
    int fd = len > 0 && len < NOTICE_NAME_BYTES ? socket(AF_UNIX, FLAGS, 0) : -1;
    if (fd < 0) return;
    memcpy(a.sun_path + 1, name, len);
    sendto(fd, text, strnlen(text, NOTICE_TEXT_BYTES - 1), MSG_DONTWAIT | MSG_NOSIGNAL,
           (const struct sockaddr *)(const void *)&a, (socklen_t)(sizeof a.sun_family + 1 + len));
    close(fd);
}
