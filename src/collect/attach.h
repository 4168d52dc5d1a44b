/* Whether CUPTI is in the process. Once it has recorded kernels it makes every later launch dearer, also
 * while nothing is on (docs/overhead.md): between the windows of a budget, and after the last window of
 * all, it is made to leave, and comes again with the next one. It leaves at the end of a call, on the
 * thread that made it, while none of our own threads is inside it, and it waits for the GPU. The program
 * must not wait with it, least of all for a kernel that waits for the program. So it leaves only where the
 * GPU is idle as far as we can know: when the program has just waited for its only stream, and every
 * launch since it came has its kernel. Not where graphs are used: CUPTI 13.0.1 broke one that was launched
 * just before it left, and a graph's launches are few. */
#ifndef COLLECT_ATTACH_H
#define COLLECT_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

bool attach_start(void); /* it comes; false: problem() says why */
/* Around a call of CUPTI by a thread of ours, or of the program outside of its callbacks. False: it is not
 * there. */
bool attach_enter(void);
void attach_exit(void);

bool attach_wants_waits(void);   /* the program's waits are to be told, recorded or not */
void attach_window_closed(void); /* graphs and waits of the program are of interest from here on */
/* It is to leave where it can. False: not yet, records are missing. After they were flushed, with kernels
 * switched off. */
bool attach_ask_leave(void);
/* From callbacks: one was launched; the program has just waited for this stream, and CUPTI may leave. */
void attach_saw_graph(void);
void attach_saw_wait(uint32_t context, uint32_t stream);
/* Before a window: attach_enter(), and CUPTI comes again if it left. LATER: it is just leaving. */
enum attach_state { ATTACH_THERE, ATTACH_LATER, ATTACH_REFUSED };
enum attach_state attach_again(void);

unsigned attach_times_left(void);
uint64_t attach_leaving_ns(void);   /* what leaving has cost so far */
const char *attach_why_stays(void); /* why it does not leave, in words */
void attach_after_fork(void);       /* in the child, where CUDA does not work */

#endif
