/* The backend for NVIDIA GPUs. nvcc compiles the kernels at build time: machine code for Hopper, PTX for
 * all GPUs since Ampere. The kernels are embedded in the program and loaded through the driver library,
 * which is opened at run time. */
#ifndef ENGINE_CUDA_CUDA_H
#define ENGINE_CUDA_CUDA_H

#include <stdbool.h>

#include "base/err.h"
#include "engine/compute/threads.h"
#include "engine/ops/ops.h"

struct ops *cuda_open(struct threads *threads, int index, struct err *err); /* NULL: see err */
/* Returns true if the kernels are embedded and a driver with at least one GPU is present. Otherwise err
 * contains the reason. */
bool cuda_available(struct err *err);
bool cuda_built(void); /* the kernels are embedded */

#endif
