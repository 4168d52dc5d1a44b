/* Short messages to another process of the same user, through a datagram socket with an abstract name
 * (unix(7)). Sending never waits and needs no file system. A message without a receiver is lost. */
#ifndef BASE_NOTICE_H
#define BASE_NOTICE_H

#include <stdbool.h>
#include <stddef.h>

#define NOTICE_NAME_BYTES 16 /* including the terminating NUL */
#define NOTICE_TEXT_BYTES 1024

/* Opens a receiver. Sets `name` for the senders. Returns a descriptor, or -1. */
int notice_open(char name[NOTICE_NAME_BYTES]);
/* Copies the next message. Ignores messages of other users, except root. Returns false if no message is
 * pending. */
bool notice_receive(int fd, char text[NOTICE_TEXT_BYTES]);
void notice_send(const char *name, const char *text);

#endif
