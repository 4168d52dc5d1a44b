/* Reads collectives from the arguments of PyTorch's record_param_comms operators and of NCCL's kernels:
 * "Collective name", "Process Group Name", "In msg nelems" and others. */
#ifndef IMPORT_KINETO_COLLECTIVE_H
#define IMPORT_KINETO_COLLECTIVE_H

#include "import/kineto_record.h"

/* rank: rank of the process in the job; -1: unknown. Returns false if the event is not a collective. Sets all
 * members except the times. */
bool kineto_collective(struct sink *sink, const struct kineto_event *ev, int64_t rank,
                       struct trace_collective *out);

#endif
