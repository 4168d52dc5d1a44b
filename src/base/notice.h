/* Short messages to another process of the same user, through a datagram socket with an abstract name
 * (unix(7)). Sending never waits, and needs neither a thread nor a file system. A message is lost if nobody
 * receives it. */
#ifndef BASE_NOTICE_H
#define BASE_NOTICE_H

#include <stdbool.h>
#include <stddef.h>

#define NOTICE_NAME_BYTES 16 /* including the terminating NUL */
#define NOTICE_TEXT_BYTES 1024

/* Opens a receiver. `name` receives the name that senders need. Returns a descriptor; -1: failed. */
int notice_open(char name[NOTICE_NAME_BYTES]);
/* Copies the next pending message. Messages of other users, except root, are dropped. Returns false if no
 * message is pending. */
bool notice_receive(int fd, char text[NOTICE_TEXT_BYTES]);
void notice_send(const char *name, const char *text);

#endif
