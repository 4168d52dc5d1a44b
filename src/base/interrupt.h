/* Interrupt signals as a flag and a file descriptor: the first SIGINT, SIGTERM or SIGHUP is recorded, and a
 * poll on interrupt_fd() wakes up. A second signal of the same kind terminates the program at once (the
 * default action). Signals that were ignored at start (nohup) stay ignored.
 *     interrupt_watch();
 *     ... if (interrupt_signal()) clean up and return ...
 *     interrupt_unwatch(); */
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

void interrupt_watch(void);
void interrupt_unwatch(void);
int interrupt_signal(void); /* the first signal received; 0: none */
int interrupt_fd(void);     /* readable after the first signal; -1: not watching */

#endif
