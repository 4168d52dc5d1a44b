/* What the trace says of GPUs, contexts and streams. The driver is asked from the keeper thread, never
 * from inside the program's own calls. Devices are numbered as the process sees them (after
 * CUDA_VISIBLE_DEVICES); the UUID says which GPU or MIG instance that is. */
#ifndef COLLECT_DEVICES_H
#define COLLECT_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

__attribute__((cold)) void devices_wanted(void);                      /* CUDA is up: somebody should ask */
void devices_tick(void);                                              /* asks, once, when wanted */
void devices_saw(uint32_t device, uint32_t context, uint32_t stream); /* a record named them */
#define DEVICES_ALL_STREAMS UINT32_MAX
/* Since the last devices_forget_stream() all records were of this stream, or of a stream of the context. */
bool devices_only_stream_is(uint32_t context, uint32_t stream);
bool devices_are_several_streams(void);
void devices_forget_stream(void);

#endif
