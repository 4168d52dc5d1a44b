/* The collector as a profiler plugin of NCCL and RCCL: records collectives, sends and receives. NCCL loads
 * the library named by NCCL_PROFILER_PLUGIN and uses the newest symbol ncclProfiler_vN that it supports. The
 * handles that NCCL gets are numbers, not pointers (nccl_rows.h), so stale and invalid handles are ignored.
 * No memory is allocated after the first init. */
#ifndef COLLECT_NCCL_H
#define COLLECT_NCCL_H

void nccl_finish(void); /* writes unfinished operations */
void nccl_after_fork(void);

#endif
