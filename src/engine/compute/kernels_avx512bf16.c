/* kernels_impl.h for avx512 with integer and bf16 dot products; the Makefile sets the flags. */
#if defined(__x86_64__)
#define KERNELS_NAME avx512bf16
#define LANES 16
#define MR 12
#include "engine/compute/kernels_impl.h"
#endif
