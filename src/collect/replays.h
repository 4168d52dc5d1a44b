/* Sampling of CUDA graphs. While CUPTI records the kernels of a graph, each replay takes about 0.9 us longer
 * per kernel. All replays of a graph run the same kernels. Therefore only the kernels of the first
 * settings.replays replays of each graph and of a few later ones are recorded. The other replays are counted
 * (TRACE_REPLAY). Functions with callback data run in CUPTI callbacks on the program's threads and never
 * wait. */
#ifndef COLLECT_REPLAYS_H
#define COLLECT_REPLAYS_H

#include <stdbool.h>
#include <stdint.h>

struct cupti_callback_data;
struct thread_state;

bool replays_are_sampled(void); /* according to the settings */
/* An unrecorded call starts. Opens a capture window if the graph has too few recorded replays, or if the
 * program has launched more kernels than usual since the last replay. */
void replays_call_starts(uint32_t id, const struct cupti_callback_data *d);
/* An unrecorded call has ended. Counts replays; start_ns 0: unknown. Detaches CUPTI at a synchronisation if
 * that is safe. */
void replays_call_ended(struct thread_state *t, uint32_t id, const struct cupti_callback_data *d,
                        uint64_t start_ns);
/* A recorded call other than a kernel launch has ended. Closes the window if no more replays are needed. */
void replays_recorded_call_ended(struct thread_state *t, uint32_t id, const struct cupti_callback_data *d);
/* Returns true if CUPTI has delivered the records of all work since the attach. Call this after a flush, when
 * the program has just synchronised with the stream of its graphs. */
bool replays_work_is_done(void);
bool replays_saw_graphs(void); /* graphs were launched in windows since the attach */
/* totals of the process: replays in windows, and replays outside of windows while CUPTI was attached */
uint64_t replays_recorded(void);
uint64_t replays_unrecorded(void);
/* Launches while CUPTI is detached (launch_slots.h). replays_count_detached() starts counting, with the
 * number of detaches so far; 0 stops it, as does replays_attach_starts(). `via` is the number of the function
 * that was called: if one of them calls another, the launch is counted once. */
void replays_count_detached(unsigned detach);
void replays_launched(void *exec, unsigned via);
void replays_graph_destroyed(void *exec); /* the handle may be reused */
void replays_attach_starts(void);         /* call before CUPTI is attached */
void replays_resumed(void);               /* call before a reattach */
void replays_after_fork(void);

#endif
