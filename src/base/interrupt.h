/* SIGINT, SIGTERM and SIGHUP as a flag and a descriptor. A second signal of the same kind terminates the
 * program. Signals that were ignored at start (nohup) stay ignored.
 *     interrupt_watch();
 *     ... if (interrupt_signal()) clean up and return ...
 *     interrupt_unwatch(); */
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

void interrupt_watch(void);
void interrupt_unwatch(void);
int interrupt_signal(void); /* first signal; 0: none */
int interrupt_fd(void);     /* readable after a signal; -1: not watching */

#endif
