#include <string.h>
#include <unistd.h>

#include "base/notice.h"
#include "unit/test.h"

TEST(a_notice_arrives_and_sending_never_waits) {
    char name[NOTICE_NAME_BYTES], text[NOTICE_TEXT_BYTES], longer[2 * NOTICE_TEXT_BYTES];
    int fd = notice_open(name);
    CHECK(fd >= 0);
    CHECK(!notice_receive(fd, text));
    notice_send(name, "vm-12: no thread");
    CHECK(notice_receive(fd, text));
    CHECK_STR(text, "vm-12: no thread");
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    notice_send(name, longer);
    CHECK(notice_receive(fd, text));
    CHECK_INT(strlen(text), NOTICE_TEXT_BYTES - 1);
    /* The queue of the socket is full after a few hundred messages at most. */
    for (int i = 0; i < 2000; i++) notice_send(name, "again");
    int n = 0;
    while (notice_receive(fd, text)) n++;
    CHECK(n > 0 && n <= 2000);
    close(fd);
    notice_send(name, "nobody receives this");
    notice_send("", "no name");
    notice_send("a name that is far too long", "text");
}
