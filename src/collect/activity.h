/* CUPTI's activity records: which are asked for, and the buffers they come in. */
#ifndef COLLECT_ACTIVITY_H
#define COLLECT_ACTIVITY_H

#include <stdbool.h>
#include <stdint.h>

bool activity_start(void); /* registers the buffers; false: problem() says why */
void activity_capture(bool on);
uint64_t activity_buffers(void); /* that came back so far */

#endif
