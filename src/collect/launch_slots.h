/* Counts launches of CUDA graphs while CUPTI is detached. A callback of CUPTI costs 4% to 7% of a decode step
 * that replays a graph (docs/overhead.md). A program that links the CUDA runtime or the driver dynamically
 * calls cudaGraphLaunch() or cuGraphLaunch() through a slot of its global offset table. The slot is replaced
 * by the address of a function here, which notes the time and calls the previous function: about 50 ns.
 *
 * A program with a static runtime has no such slot. Its launches are not counted.
 *
 * Slots are never restored: the collector is never unloaded (-z nodelete), and a function here without
 * anything to note calls the previous function at once. */
#ifndef COLLECT_LAUNCH_SLOTS_H
#define COLLECT_LAUNCH_SLOTS_H

#include <stdbool.h>

struct launch_slots {
    unsigned replaced; /* slots of launches that are replaced now */
    unsigned refused;  /* slots of launches that could not be replaced: read-only, or too many functions */
};

/* Replaces the slots of all loaded modules. Background thread only, because it waits for the dynamic
 * linker's lock. Returns false if it must be called again later, because a thread is forking. */
bool launch_slots_replace(struct launch_slots *out);

#endif
