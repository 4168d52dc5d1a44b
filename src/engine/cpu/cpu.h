/* The backend for the CPU, which is the reference for other backends. Tensors are host memory, and weights
 * are used in place. Scratch memory grows to the size of the largest call and stays allocated. */
#ifndef ENGINE_CPU_CPU_H
#define ENGINE_CPU_CPU_H

#include "engine/compute/threads.h"
#include "engine/ops/ops.h"

/* Threads are borrowed until ops_close(). isa: "portable", "avx2", ... (kernels.h); NULL: $INFERPROF_ISA
 * or the preferred instruction set. Returns NULL if this machine does not support the instruction set. */
struct ops *cpu_open(struct threads *threads, const char *isa);
/* For tests: allows bf16 products without bf16 instructions. */
void cpu_test_bf16(struct ops *o);
/* For tests: the size of the scratch memory that operators keep. */
size_t cpu_scratch_bytes(const struct ops *o);

#endif
