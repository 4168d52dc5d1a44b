/* Reads collectives from the arguments that PyTorch adds to its record_param_comms operators and to the
 * kernels of NCCL: "Collective name", "Process Group Name", "In msg nelems" and others. */
#ifndef IMPORT_KINETO_COLLECTIVE_H
#define IMPORT_KINETO_COLLECTIVE_H

#include "import/kineto_record.h"

/* Returns false if the event is not a collective. Sets all members except the times. */
bool kineto_collective(struct sink *sink, const struct kineto_event *ev, struct trace_collective *out);

#endif
