/* The backend for the CPU, the reference for other backends. Tensors are host memory, and weights are used
 * where they are. Every operator divides its work among the threads. Scratch memory grows to the largest call
 * and then stays: repeating a call allocates nothing. */
#ifndef ENGINE_CPU_CPU_H
#define ENGINE_CPU_CPU_H

#include "engine/compute/threads.h"
#include "engine/ops/ops.h"

/* Threads are borrowed until ops_close(). isa: "portable", "avx2" or "avx512"; NULL: the best one here or
 * $INFERPROF_ISA (kernels.h). Returns NULL if this machine cannot run that one. */
struct ops *cpu_open(struct threads *threads, const char *isa);
/* Bytes of scratch memory at the moment. For tests. */
size_t cpu_scratch_bytes(const struct ops *o);

#endif
