/* Whether CUPTI is in the process. Once it has recorded kernels it makes later launches dearer, also while nothing is on
 * (docs/overhead.md): between the windows of a budget, and after the last window of all, it is made to leave, and comes
 * again with the next one. It may leave only at the end of a call, on the thread that made it, and while none of our own threads is inside it. */
#ifndef COLLECT_ATTACH_H
#define COLLECT_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

bool attach_start(void); /* for the first time; false: problem() says why */
/* Around a call of CUPTI by a thread of ours, or of the program outside of its callbacks. False: it is not there. */
bool attach_enter(void);
void attach_exit(void);
void attach_ask_leave(void); /* at the end of the next call, if this CUPTI can be trusted with it */
void attach_leave(void);     /* in the callback at the end of a call, after it was asked for */
/* Before a window: attach_enter(), and CUPTI comes again if it left. LATER: it is just leaving. */
enum attach_state { ATTACH_THERE, ATTACH_LATER, ATTACH_REFUSED };
enum attach_state attach_again(void);
unsigned attach_times_left(void);
void attach_after_fork(void); /* in the child, where CUDA does not work */

#endif
