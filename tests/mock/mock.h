/* What the mock libraries offer to mock_app beside the real ABI. */
#ifndef TESTS_MOCK_MOCK_H
#define TESTS_MOCK_MOCK_H

#include <stdint.h>

enum mock_work { MOCK_KERNEL, MOCK_GRAPH, MOCK_MEMCPY, MOCK_MEMSET, MOCK_SYNC };

/* libcupti: one piece of work as a program would ask for it: the runtime call with the driver call inside
 * it, then the record. `name` must live on. */
typedef void (*mock_work_fn)(enum mock_work work, const char *name, uint32_t stream);
/* libcupti: what follows is done on this device, in a context of its own. */
typedef void (*mock_device_fn)(uint32_t device);
/* libcupti: plays a tape of src/collect/raw.h; returns the kernels on it, -1 if it cannot be read. */
typedef long (*mock_tape_fn)(const char *path);
/* libcupti: somebody else registers buffers of his own, as torch.profiler would. */
typedef void (*mock_takeover_fn)(void);

#endif
