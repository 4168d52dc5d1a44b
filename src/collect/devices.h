/* Describes GPUs, contexts and streams in the trace. The driver is queried on the background thread, never
 * inside the program's own calls. Devices have the numbers that the process uses (after
 * CUDA_VISIBLE_DEVICES); the UUID identifies the GPU or MIG instance. */
#ifndef COLLECT_DEVICES_H
#define COLLECT_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

void devices_load(void); /* program's thread, in cuInit(), before the background thread is started */
__attribute__((cold)) void devices_request(void); /* any thread, after CUDA is initialised */
void devices_tick(void);                          /* background thread */

/* Called for every record, by the thread that reads CUPTI's buffer. */
void devices_note_stream(uint32_t device, uint32_t context, uint32_t stream);
#define DEVICES_ALL_STREAMS UINT32_MAX
/* Returns true if there were records since the last devices_reset_stream() and all of them belong to this
 * stream (DEVICES_ALL_STREAMS: to one stream of this context). */
bool devices_only_stream_is(uint32_t context, uint32_t stream);
bool devices_saw_several_streams(void);
void devices_reset_stream(void);
void devices_after_fork(void);

#endif
