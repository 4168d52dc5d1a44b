/* The collector as a profiler plugin of NCCL and RCCL: records collectives, sends and receives. NCCL
 * loads the library named by NCCL_PROFILER_PLUGIN and uses the newest symbol ncclProfiler_vN that it
 * knows.
 *
 * Handles that NCCL gets are numbers, not pointers: a place in a fixed table and its generation. A handle
 * that is stale, forged or stopped twice is therefore recognised and ignored. Nothing is allocated. No
 * lock is waited for: an event that finds its row in use by another thread is dropped and counted as
 * lost. */
#ifndef COLLECT_NCCL_H
#define COLLECT_NCCL_H

void nccl_finish(void); /* writes operations whose end was not reported; called when the trace ends */
void nccl_after_fork(void);

#endif
