/* kernels_impl.h for any machine: four lanes; the compiler chooses the instructions. */

#define KERNELS_NAME portable
#define LANES 4
#define MR 6
#include "engine/compute/kernels_impl.h"
