/* The CUDA calls worth a record, chosen one by one: those that give the GPU work and those that wait for it.
 * Numbers are CUPTI's callback ids, which never change once given; abi_check.c compares them with its headers. */
#ifndef COLLECT_CALLS_H
#define COLLECT_CALLS_H

#include <stdint.h>

#include "collect/abi.h"
#include "trace/format.h"

/* what the call is, CUPTI's name, callback id */
#define RUNTIME_CALLS(X)                                         \
    X(LAUNCH, cudaLaunch_v3020, 13)                              \
    X(LAUNCH, cudaLaunchKernel_v7000, 211)                       \
    X(LAUNCH, cudaLaunch_ptsz_v7000, 213)                        \
    X(LAUNCH, cudaLaunchKernel_ptsz_v7000, 214)                  \
    X(LAUNCH, cudaLaunchCooperativeKernel_v9000, 269)            \
    X(LAUNCH, cudaLaunchCooperativeKernel_ptsz_v9000, 270)       \
    X(LAUNCH, cudaLaunchCooperativeKernelMultiDevice_v9000, 272) \
    X(LAUNCH, cudaGraphLaunch_v10000, 311)                       \
    X(LAUNCH, cudaGraphLaunch_ptsz_v10000, 312)                  \
    X(LAUNCH, cudaLaunchKernelExC_v11060, 430)                   \
    X(LAUNCH, cudaLaunchKernelExC_ptsz_v11060, 431)              \
    X(COPY, cudaMemcpy_v3020, 31)                                \
    X(COPY, cudaMemcpy2D_v3020, 32)                              \
    X(COPY, cudaMemcpyToSymbol_v3020, 39)                        \
    X(COPY, cudaMemcpyFromSymbol_v3020, 40)                      \
    X(COPY, cudaMemcpyAsync_v3020, 41)                           \
    X(COPY, cudaMemcpy2DAsync_v3020, 44)                         \
    X(COPY, cudaMemcpyToSymbolAsync_v3020, 47)                   \
    X(COPY, cudaMemcpyFromSymbolAsync_v3020, 48)                 \
    X(COPY, cudaMemset_v3020, 49)                                \
    X(COPY, cudaMemset2D_v3020, 50)                              \
    X(COPY, cudaMemsetAsync_v3020, 51)                           \
    X(COPY, cudaMemset2DAsync_v3020, 52)                         \
    X(COPY, cudaMemset3D_v3020, 142)                             \
    X(COPY, cudaMemset3DAsync_v3020, 143)                        \
    X(COPY, cudaMemcpy3D_v3020, 144)                             \
    X(COPY, cudaMemcpy3DAsync_v3020, 145)                        \
    X(COPY, cudaMemcpyPeer_v4000, 160)                           \
    X(COPY, cudaMemcpyPeerAsync_v4000, 161)                      \
    X(COPY, cudaMemcpy_ptds_v7000, 215)                          \
    X(COPY, cudaMemcpy2D_ptds_v7000, 216)                        \
    X(COPY, cudaMemcpyAsync_ptsz_v7000, 225)                     \
    X(COPY, cudaMemcpy2DAsync_ptsz_v7000, 228)                   \
    X(COPY, cudaMemset_ptds_v7000, 233)                          \
    X(COPY, cudaMemsetAsync_ptsz_v7000, 235)                     \
    X(SYNC_STREAM, cudaStreamSynchronize_v3020, 131)             \
    X(SYNC_STREAM, cudaStreamSynchronize_ptsz_v7000, 239)        \
    X(SYNC_EVENT, cudaEventSynchronize_v3020, 137)               \
    X(SYNC_WAIT, cudaStreamWaitEvent_v3020, 147)                 \
    X(SYNC_WAIT, cudaStreamWaitEvent_ptsz_v7000, 247)            \
    X(SYNC_CONTEXT, cudaThreadSynchronize_v3020, 126)            \
    X(SYNC_CONTEXT, cudaDeviceSynchronize_v3020, 165)
/* Newer than the oldest CUPTI supported: a library that does not know them refuses, which is fine. */
#define RUNTIME_CALLS_12(X)                   \
    X(COPY, cudaMemcpyBatchAsync_v12080, 482) \
    X(COPY, cudaMemcpy3DBatchAsync_v12080, 484)
#define RUNTIME_CALLS_13(X)                        \
    X(LAUNCH, __cudaLaunchKernel_v13000, 505)      \
    X(LAUNCH, __cudaLaunchKernel_ptsz_v13000, 506) \
    X(COPY, cudaMemcpyBatchAsync_v13000, 509)      \
    X(COPY, cudaMemcpy3DBatchAsync_v13000, 511)
#define DRIVER_CALLS(X)                            \
    X(LAUNCH, cuLaunchKernel, 307)                 \
    X(LAUNCH, cuLaunchKernel_ptsz, 442)            \
    X(LAUNCH, cuLaunchCooperativeKernel, 477)      \
    X(LAUNCH, cuLaunchCooperativeKernel_ptsz, 478) \
    X(LAUNCH, cuGraphLaunch, 514)                  \
    X(LAUNCH, cuGraphLaunch_ptsz, 515)             \
    X(LAUNCH, cuLaunchKernelEx, 652)               \
    X(LAUNCH, cuLaunchKernelEx_ptsz, 653)          \
    X(COPY, cuMemcpyHtoD_v2, 276)                  \
    X(COPY, cuMemcpyHtoDAsync_v2, 277)             \
    X(COPY, cuMemcpyDtoH_v2, 278)                  \
    X(COPY, cuMemcpyDtoHAsync_v2, 279)             \
    X(COPY, cuMemcpyDtoD_v2, 280)                  \
    X(COPY, cuMemcpyDtoDAsync_v2, 281)             \
    X(COPY, cuMemcpy2D_v2, 287)                    \
    X(COPY, cuMemcpy2DAsync_v2, 289)               \
    X(COPY, cuMemcpy3D_v2, 290)                    \
    X(COPY, cuMemcpy3DAsync_v2, 291)               \
    X(COPY, cuMemcpy, 305)                         \
    X(COPY, cuMemcpyAsync, 306)                    \
    X(COPY, cuMemcpyPeer, 318)                     \
    X(COPY, cuMemcpyPeerAsync, 319)                \
    X(COPY, cuMemsetD8_v2, 249)                    \
    X(COPY, cuMemsetD16_v2, 250)                   \
    X(COPY, cuMemsetD32_v2, 251)                   \
    X(COPY, cuMemsetD8Async, 216)                  \
    X(COPY, cuMemsetD16Async, 218)                 \
    X(COPY, cuMemsetD32Async, 220)                 \
    X(COPY, cuMemcpyHtoDAsync_v2_ptsz, 421)        \
    X(COPY, cuMemcpyDtoHAsync_v2_ptsz, 422)        \
    X(COPY, cuMemcpyDtoDAsync_v2_ptsz, 423)        \
    X(SYNC_CONTEXT, cuCtxSynchronize, 17)          \
    X(SYNC_EVENT, cuEventSynchronize, 121)         \
    X(SYNC_STREAM, cuStreamSynchronize, 126)       \
    X(SYNC_STREAM, cuStreamSynchronize_ptsz, 440)  \
    X(SYNC_WAIT, cuStreamWaitEvent, 295)           \
    X(SYNC_WAIT, cuStreamWaitEvent_ptsz, 436)
#define DRIVER_CALLS_13(X) X(SYNC_CONTEXT, cuCtxSynchronize_v2, 800)

enum call_class {
    CALL_NONE,
    CALL_LAUNCH,
    CALL_COPY,
    CALL_SYNC_STREAM,
    CALL_SYNC_EVENT,
    CALL_SYNC_WAIT,
    CALL_SYNC_CONTEXT
};
#define CALLS_MAX_ID 1024

struct call {
    uint8_t domain; /* DOMAIN_RUNTIME, DOMAIN_DRIVER */
    uint8_t class;
    uint16_t id;
};
const struct call *calls_all(unsigned *n);

#endif
