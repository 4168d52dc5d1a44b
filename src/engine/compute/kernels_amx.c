/* kernels_impl.h for avx512 with integer dot products, and bf16 tiles by AMX; the Makefile sets the flags. */
#if defined(__x86_64__)
#define KERNELS_NAME amx
#define LANES 16
#define MR 12
#include "engine/compute/kernels_impl.h"
#endif
