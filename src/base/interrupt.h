/* Ctrl-C and friends as something to look at: the first SIGINT, SIGTERM or SIGHUP is noted, and whoever
 * polls interrupt_fd() wakes up. A second one of the same kind ends the program at once, as if nobody
 * watched. What was ignored when we started (nohup) stays ignored.
 *     interrupt_watch();
 *     ... if (interrupt_signal()) wind up ...
 *     interrupt_unwatch(); */
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

void interrupt_watch(void);
void interrupt_unwatch(void);
int interrupt_signal(void); /* the first that came; 0: none */
int interrupt_fd(void);     /* readable once one came; -1: not watching */

#endif
