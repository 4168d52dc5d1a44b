/* Compares constants and structs of our cuda.h with NVIDIA's cuda.h at compile time, if NVIDIA's header is
 * installed. Produces no code. */
#include "driver/cuda.h"

#if defined(__has_include) && !defined(__cppcheck__)
#if __has_include(<cuda.h>)
#include <cuda.h>

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " differs from " #theirs)
SAME(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CU_ATTR_SMS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CU_ATTR_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(CU_ATTR_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CU_ATTR_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CU_ATTR_SHARED_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(CU_FUNC_PTX_VERSION, CU_FUNC_ATTRIBUTE_PTX_VERSION);
SAME(CU_FUNC_MAX_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(CU_STREAM_NONBLOCKING, CU_STREAM_NON_BLOCKING);
SAME(CU_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(CU_HOST_PORTABLE_MAPPED, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
SAME(CU_TOO_MANY_BLOCKS, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
SAME(CU_LAUNCH_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME(CU_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(CU_LAUNCH_DEPENDENT, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(CU_MAP_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(CU_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(CU_MAP_SWIZZLE_128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(CU_MAP_PROMOTE_128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME(sizeof(struct cu_attribute), sizeof(CUlaunchAttribute));
SAME(offsetof(struct cu_attribute, value), offsetof(CUlaunchAttribute, value));
SAME(sizeof(struct cu_launch), sizeof(CUlaunchConfig));
SAME(offsetof(struct cu_launch, stream), offsetof(CUlaunchConfig, hStream));
SAME(offsetof(struct cu_launch, attrs), offsetof(CUlaunchConfig, attrs));
SAME(offsetof(struct cu_launch, nattrs), offsetof(CUlaunchConfig, numAttrs));
SAME(sizeof(cu_ptr), sizeof(CUdeviceptr));
#endif
#endif

typedef int driver_check_is_not_empty;
