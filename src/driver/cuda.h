/* NVIDIA's driver library, libcuda.so.1, loaded at run time. The declarations are our own, so that the
 * build needs no CUDA headers; cuda_check.c compares constants and structs with NVIDIA's cuda.h if that is
 * installed.
 *     const struct driver *d = driver_load(&err);
 *     if (!d || driver_require(d, 12000, "the engine", &err) < 0) ... */
#ifndef DRIVER_CUDA_H
#define DRIVER_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef unsigned long long cu_ptr; /* an address in device memory; 0: none */
typedef struct cu_context_s *cu_context;
typedef struct cu_module_s *cu_module;
typedef struct cu_function_s *cu_function;
typedef struct cu_stream_s *cu_stream;
typedef struct cu_graph_s *cu_graph;
typedef struct cu_exec_s *cu_exec;
typedef struct cu_event_s *cu_event;

enum {
    CU_OK = 0,
    CU_OUT_OF_MEMORY = 2,
    CU_NOT_READY = 600,
    CU_TOO_MANY_BLOCKS = 720, /* CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE */
    CU_ATTR_SMS = 16,
    CU_ATTR_L2_BYTES = 38,
    CU_ATTR_MAJOR = 75,
    CU_ATTR_MINOR = 76,
    CU_ATTR_SHARED_OPTIN = 97,
    CU_FUNC_PTX_VERSION = 5,
    CU_FUNC_MAX_SHARED = 8,
    CU_STREAM_NONBLOCKING = 1,
    CU_CAPTURE_THREAD_LOCAL = 1,
    CU_HOST_PORTABLE_MAPPED = 3,
    CU_LAUNCH_COOPERATIVE = 2,
    CU_LAUNCH_CLUSTER = 4,
    CU_LAUNCH_DEPENDENT = 6,
    CU_MAP_U8 = 0,
    CU_MAP_F16 = 6,
    CU_MAP_BF16 = 9,
    CU_MAP_SWIZZLE_128 = 3,
    CU_MAP_PROMOTE_128 = 2
};

struct cu_attribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int dependent, cooperative;
    } value;
};
struct cu_launch {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    cu_stream stream;
    struct cu_attribute *attrs;
    unsigned nattrs;
};

/* X(name in our table, name in the library, parameters). All functions return an error number. */
#define CU_CALLS(X)                                                                                          \
    X(init, cuInit, (unsigned flags))                                                                        \
    X(driver_version, cuDriverGetVersion, (int *version))                                                    \
    X(device_count, cuDeviceGetCount, (int *n))                                                              \
    X(device_get, cuDeviceGet, (int *device, int index))                                                     \
    X(device_name, cuDeviceGetName, (char *name, int cap, int device))                                       \
    X(device_uuid, cuDeviceGetUuid_v2, (unsigned char id[16], int device))                                   \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))                       \
    X(context_retain, cuDevicePrimaryCtxRetain, (cu_context * context, int device))                          \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (int device))                                           \
    X(context_set, cuCtxSetCurrent, (cu_context context))                                                    \
    X(module_load, cuModuleLoadData, (cu_module * module, const void *image))                                \
    X(module_unload, cuModuleUnload, (cu_module module))                                                     \
    X(module_function, cuModuleGetFunction, (cu_function * f, cu_module module, const char *name))           \
    X(module_global, cuModuleGetGlobal_v2, (cu_ptr * p, size_t * bytes, cu_module module, const char *name)) \
    X(function_set, cuFuncSetAttribute, (cu_function f, int attribute, int value))                           \
    X(function_get, cuFuncGetAttribute, (int *value, int attribute, cu_function f))                          \
    X(mem_alloc, cuMemAlloc_v2, (cu_ptr * p, size_t bytes))                                                  \
    X(mem_free, cuMemFree_v2, (cu_ptr p))                                                                    \
    X(mem_info, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                \
    X(host_alloc, cuMemHostAlloc, (void **p, size_t bytes, unsigned flags))                                  \
    X(host_free, cuMemFreeHost, (void *p))                                                                   \
    X(host_pointer, cuMemHostGetDevicePointer_v2, (cu_ptr * p, void *host, unsigned flags))                  \
    X(copy_in, cuMemcpyHtoDAsync_v2, (cu_ptr to, const void *from, size_t bytes, cu_stream stream))          \
    X(copy_out, cuMemcpyDtoHAsync_v2, (void *to, cu_ptr from, size_t bytes, cu_stream stream))               \
    X(set_words, cuMemsetD32Async, (cu_ptr to, unsigned word, size_t n, cu_stream stream))                   \
    X(stream_create, cuStreamCreate, (cu_stream * stream, unsigned flags))                                   \
    X(stream_destroy, cuStreamDestroy_v2, (cu_stream stream))                                                \
    X(stream_wait, cuStreamSynchronize, (cu_stream stream))                                                  \
    X(stream_query, cuStreamQuery, (cu_stream stream))                                                       \
    X(capture_begin, cuStreamBeginCapture_v2, (cu_stream stream, int mode))                                  \
    X(capture_end, cuStreamEndCapture, (cu_stream stream, cu_graph * graph))                                 \
    X(graph_instantiate, cuGraphInstantiateWithFlags, (cu_exec * exec, cu_graph graph, uint64_t flags))      \
    X(graph_launch, cuGraphLaunch, (cu_exec exec, cu_stream stream))                                         \
    X(graph_destroy, cuGraphDestroy, (cu_graph graph))                                                       \
    X(exec_destroy, cuGraphExecDestroy, (cu_exec exec))                                                      \
    X(launch, cuLaunchKernelEx,                                                                              \
      (const struct cu_launch *config, cu_function f, void **params, void **extra))                          \
    X(launch_plain, cuLaunchKernel,                                                                          \
      (cu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
       unsigned block_z, unsigned shared_bytes, cu_stream stream, void **params, void **extra))              \
    X(set_bytes, cuMemsetD8_v2, (cu_ptr to, unsigned char byte, size_t n))                                   \
    X(event_create, cuEventCreate, (cu_event * event, unsigned flags))                                       \
    X(event_destroy, cuEventDestroy_v2, (cu_event event))                                                    \
    X(event_record, cuEventRecord, (cu_event event, cu_stream stream))                                       \
    X(event_wait, cuEventSynchronize, (cu_event event))                                                      \
    X(event_elapsed, cuEventElapsedTime, (float *ms, cu_event start, cu_event end))                          \
    X(tensor_map, cuTensorMapEncodeTiled,                                                                    \
      (void *map, int type, uint32_t rank, void *data, const uint64_t *sizes, const uint64_t *strides,       \
       const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill))    \
    X(error_name, cuGetErrorName, (int error, const char **name))                                            \
    X(error_text, cuGetErrorString, (int error, const char **text))

/* A function that the loaded driver lacks is NULL. */
struct driver {
    int version; /* CUDA version that the driver supports: 12080 is 12.8 */
#define X(name, symbol, parameters) int(*name) parameters;
    CU_CALLS(X)
#undef X
};

/* Loads the library and calls cuInit(). After the first success, only returns the table. Returns NULL on
 * failure; err has the reason. */
const struct driver *driver_load(struct err *err);
/* Fails if the driver does not support this CUDA version. `who`: the part of the program that needs it,
 * for the message. */
int driver_require(const struct driver *d, int version, const char *who, struct err *err);
/* Returns the name of the first function above that the driver lacks; NULL if the driver has all
 * functions. */
const char *driver_missing(const struct driver *d);
/* Sets err to "WHAT: <message of the driver>" and returns -1. */
int driver_error(const struct driver *d, int error, const char *what, struct err *err);
/* Returns the CUDA version that the driver supports, without initialising the driver; 0: there is no
 * usable driver. */
int driver_version(void);
/* Writes the device's uuid as nvidia-smi shows it, or "" if it is unknown. */
enum { DRIVER_UUID_MAX = 48 };
void driver_uuid(const struct driver *d, int device, char text[DRIVER_UUID_MAX]);

#endif
