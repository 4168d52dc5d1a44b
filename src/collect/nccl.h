/* The collector as a profiler plugin of NCCL and RCCL: records collectives, sends and receives. NCCL
 * loads the library named by NCCL_PROFILER_PLUGIN and uses the newest symbol ncclProfiler_vN that it
 * supports.
 *
 * Handles that NCCL gets are numbers, not pointers: a place in a fixed table and its generation. A handle
 * that is stale, forged or stopped twice is therefore recognised and ignored. Nothing is allocated after
 * the first init. A thread tries only for a short time to lock a row. If that fails, the event is
 * dropped, and an operation is counted as lost. */
#ifndef COLLECT_NCCL_H
#define COLLECT_NCCL_H

void nccl_finish(void); /* writes operations whose end was not reported; called when the trace ends */
void nccl_after_fork(void);

#endif
