/* Functions of the mock libraries for mock_app, in addition to the real ABI. */
#ifndef TESTS_MOCK_MOCK_H
#define TESTS_MOCK_MOCK_H

#include <stdbool.h>
#include <stdint.h>

enum mock_work { MOCK_KERNEL, MOCK_GRAPH, MOCK_MEMCPY, MOCK_MEMSET, MOCK_SYNC };

/* libcupti: one piece of work: the runtime call with the driver call inside it, then the record. `name`
 * must stay valid. */
typedef void (*mock_work_fn)(enum mock_work work, const char *name, uint32_t stream);
/* libcupti: later work runs on this device, in a context of its own. */
typedef void (*mock_device_fn)(uint32_t device);
/* libcupti: later graph launches are of this graph; 0: the first one. `made`: it is instantiated now. */
typedef void (*mock_graph_fn)(uint32_t graph, int change);
enum mock_graph_change {
    MOCK_GRAPH_SAME,
    MOCK_GRAPH_MADE,
    MOCK_GRAPH_UPDATED,
    MOCK_CAPTURE_BEGINS,
    MOCK_CAPTURE_ENDS
};
/* libcupti: waits until a tool has subscribed n times and records kernels; returns false after a minute. */
typedef bool (*mock_attached_fn)(unsigned n);
/* libgraphs: returns the address that a call of cudaGraphLaunch() goes to. */
typedef void *(*mock_launch_target_fn)(void);
/* libcupti: returns the handle of the graph that is launched. */
typedef void *(*mock_graph_handle_fn)(void);
/* libgraphs: launches the graph n times through the runtime; returns the number of failures. */
typedef long (*mock_launch_graphs_fn)(void *exec, uint32_t stream, long n);
/* libgraphs: destroys the graph. */
typedef void (*mock_destroy_graph_fn)(void *exec);
/* libcupti: an allocation of `bytes` at `address`; 0 bytes: the address is freed. */
typedef void (*mock_memory_fn)(uint64_t address, uint64_t bytes);
/* libcupti: replays a tape (src/collect/raw.h); returns its number of kernels, -1 if it cannot be read. */
typedef long (*mock_tape_fn)(const char *path);
/* libcupti: another tool registers its own buffers, as torch.profiler does. */
typedef void (*mock_takeover_fn)(void);
/* libcupti: waits until a slow disable is in progress (fault slowoff), then lets it continue. */
typedef void (*mock_await_fn)(void);

#endif
