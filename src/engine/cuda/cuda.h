/* The backend for NVIDIA GPUs. Kernels are compiled by nvcc at build time (machine code for Hopper, PTX
 * for everything since Ampere), embedded in the program and loaded with the driver library, which is found
 * at run time. */
#ifndef ENGINE_CUDA_CUDA_H
#define ENGINE_CUDA_CUDA_H

#include <stdbool.h>

#include "base/err.h"
#include "engine/compute/threads.h"
#include "engine/ops/ops.h"

struct ops *cuda_open(struct threads *threads, int index, struct err *err); /* NULL: see err */
/* The kernels are embedded, and there is a driver with at least one GPU. Otherwise err says what is
 * missing. */
bool cuda_available(struct err *err);
bool cuda_built(void); /* the kernels are embedded */

#endif
