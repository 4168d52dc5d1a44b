/* kernels_impl.h for avx2; the Makefile sets the flags. */
#if defined(__x86_64__)
#define KERNELS_NAME avx2
#define LANES 8
#define MR 6
#include "engine/compute/kernels_impl.h"
#endif
