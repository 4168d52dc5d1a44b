/* The CUDA driver calls that are watched: they submit work, wait for it, capture, create or update CUDA
 * graphs, or allocate and free device memory. Runtime calls are not watched: every relevant one makes a
 * driver call with the same correlation id, and watching any of them slows down all runtime calls. The
 * numbers are CUPTI's callback ids, which never change; abi_check.c compares them with CUPTI's headers. */
#ifndef COLLECT_CALLS_H
#define COLLECT_CALLS_H

#include <stdbool.h>
#include <stdint.h>

/* X(class, CUPTI's name, callback id) */
#define CALLS_12_0(X)                                     \
    X(LAUNCH, cuLaunchKernel, 307)                        \
    X(LAUNCH, cuLaunchKernel_ptsz, 442)                   \
    X(LAUNCH, cuLaunchCooperativeKernel, 477)             \
    X(LAUNCH, cuLaunchCooperativeKernel_ptsz, 478)        \
    X(LAUNCH, cuLaunchCooperativeKernelMultiDevice, 480)  \
    X(LAUNCH, cuGraphLaunch, 514)                         \
    X(LAUNCH, cuGraphLaunch_ptsz, 515)                    \
    X(LAUNCH, cuLaunchKernelEx, 652)                      \
    X(LAUNCH, cuLaunchKernelEx_ptsz, 653)                 \
    X(COPY, cuMemsetD8Async, 216)                         \
    X(COPY, cuMemsetD16Async, 218)                        \
    X(COPY, cuMemsetD32Async, 220)                        \
    X(COPY, cuMemsetD2D8Async, 222)                       \
    X(COPY, cuMemsetD2D16Async, 224)                      \
    X(COPY, cuMemsetD2D32Async, 226)                      \
    X(COPY, cuMemcpy_v2, 248)                             \
    X(COPY, cuMemsetD8_v2, 249)                           \
    X(COPY, cuMemsetD16_v2, 250)                          \
    X(COPY, cuMemsetD32_v2, 251)                          \
    X(COPY, cuMemsetD2D8_v2, 252)                         \
    X(COPY, cuMemsetD2D16_v2, 253)                        \
    X(COPY, cuMemsetD2D32_v2, 254)                        \
    X(COPY, cuMemcpyHtoD_v2, 276)                         \
    X(COPY, cuMemcpyHtoDAsync_v2, 277)                    \
    X(COPY, cuMemcpyDtoH_v2, 278)                         \
    X(COPY, cuMemcpyDtoHAsync_v2, 279)                    \
    X(COPY, cuMemcpyDtoD_v2, 280)                         \
    X(COPY, cuMemcpyDtoDAsync_v2, 281)                    \
    X(COPY, cuMemcpyAtoH_v2, 282)                         \
    X(COPY, cuMemcpyAtoHAsync_v2, 283)                    \
    X(COPY, cuMemcpyAtoD_v2, 284)                         \
    X(COPY, cuMemcpyDtoA_v2, 285)                         \
    X(COPY, cuMemcpyAtoA_v2, 286)                         \
    X(COPY, cuMemcpy2D_v2, 287)                           \
    X(COPY, cuMemcpy2DUnaligned_v2, 288)                  \
    X(COPY, cuMemcpy2DAsync_v2, 289)                      \
    X(COPY, cuMemcpy3D_v2, 290)                           \
    X(COPY, cuMemcpy3DAsync_v2, 291)                      \
    X(COPY, cuMemcpyHtoA_v2, 292)                         \
    X(COPY, cuMemcpyHtoAAsync_v2, 293)                    \
    X(COPY, cuMemcpy, 305)                                \
    X(COPY, cuMemcpyAsync, 306)                           \
    X(COPY, cuMemcpyPeer, 318)                            \
    X(COPY, cuMemcpyPeerAsync, 319)                       \
    X(COPY, cuMemcpy3DPeer, 320)                          \
    X(COPY, cuMemcpy3DPeerAsync, 321)                     \
    X(COPY, cuMemcpyHtoD_v2_ptds, 397)                    \
    X(COPY, cuMemcpyDtoH_v2_ptds, 398)                    \
    X(COPY, cuMemcpyDtoD_v2_ptds, 399)                    \
    X(COPY, cuMemcpyDtoA_v2_ptds, 400)                    \
    X(COPY, cuMemcpyAtoD_v2_ptds, 401)                    \
    X(COPY, cuMemcpyHtoA_v2_ptds, 402)                    \
    X(COPY, cuMemcpyAtoH_v2_ptds, 403)                    \
    X(COPY, cuMemcpyAtoA_v2_ptds, 404)                    \
    X(COPY, cuMemcpy2D_v2_ptds, 405)                      \
    X(COPY, cuMemcpy2DUnaligned_v2_ptds, 406)             \
    X(COPY, cuMemcpy3D_v2_ptds, 407)                      \
    X(COPY, cuMemcpy_ptds, 408)                           \
    X(COPY, cuMemcpyPeer_ptds, 409)                       \
    X(COPY, cuMemcpy3DPeer_ptds, 410)                     \
    X(COPY, cuMemsetD8_v2_ptds, 411)                      \
    X(COPY, cuMemsetD16_v2_ptds, 412)                     \
    X(COPY, cuMemsetD32_v2_ptds, 413)                     \
    X(COPY, cuMemsetD2D8_v2_ptds, 414)                    \
    X(COPY, cuMemsetD2D16_v2_ptds, 415)                   \
    X(COPY, cuMemsetD2D32_v2_ptds, 416)                   \
    X(COPY, cuMemcpyAsync_ptsz, 418)                      \
    X(COPY, cuMemcpyHtoAAsync_v2_ptsz, 419)               \
    X(COPY, cuMemcpyAtoHAsync_v2_ptsz, 420)               \
    X(COPY, cuMemcpyHtoDAsync_v2_ptsz, 421)               \
    X(COPY, cuMemcpyDtoHAsync_v2_ptsz, 422)               \
    X(COPY, cuMemcpyDtoDAsync_v2_ptsz, 423)               \
    X(COPY, cuMemcpy2DAsync_v2_ptsz, 424)                 \
    X(COPY, cuMemcpy3DAsync_v2_ptsz, 425)                 \
    X(COPY, cuMemcpyPeerAsync_ptsz, 426)                  \
    X(COPY, cuMemcpy3DPeerAsync_ptsz, 427)                \
    X(COPY, cuMemsetD8Async_ptsz, 428)                    \
    X(COPY, cuMemsetD16Async_ptsz, 429)                   \
    X(COPY, cuMemsetD32Async_ptsz, 430)                   \
    X(COPY, cuMemsetD2D8Async_ptsz, 431)                  \
    X(COPY, cuMemsetD2D16Async_ptsz, 432)                 \
    X(COPY, cuMemsetD2D32Async_ptsz, 433)                 \
    X(SYNC_STREAM, cuStreamSynchronize, 126)              \
    X(SYNC_STREAM, cuStreamSynchronize_ptsz, 440)         \
    X(SYNC_EVENT, cuEventSynchronize, 121)                \
    X(SYNC_WAIT, cuStreamWaitEvent, 295)                  \
    X(SYNC_WAIT, cuStreamWaitEvent_ptsz, 436)             \
    X(SYNC_CONTEXT, cuCtxSynchronize, 17)                 \
    X(GRAPH_MADE, cuGraphInstantiate, 513)                \
    X(GRAPH_MADE, cuGraphInstantiate_v2, 578)             \
    X(GRAPH_MADE, cuGraphInstantiateWithFlags, 643)       \
    X(GRAPH_MADE, cuGraphInstantiateWithParams, 656)      \
    X(GRAPH_MADE, cuGraphInstantiateWithParams_ptsz, 657) \
    X(GRAPH_UPDATED, cuGraphExecUpdate, 561)              \
    X(GRAPH_UPDATED, cuGraphExecUpdate_v2, 696)           \
    X(CAPTURE_BEGINS, cuStreamBeginCapture, 495)          \
    X(CAPTURE_BEGINS, cuStreamBeginCapture_ptsz, 496)     \
    X(CAPTURE_BEGINS, cuStreamBeginCapture_v2, 539)       \
    X(CAPTURE_BEGINS, cuStreamBeginCapture_v2_ptsz, 540)  \
    X(CAPTURE_ENDS, cuStreamEndCapture, 497)              \
    X(CAPTURE_ENDS, cuStreamEndCapture_ptsz, 498)         \
    X(ALLOC, cuMemAlloc_v2, 243)                          \
    X(ALLOC, cuMemAllocManaged, 371)                      \
    X(ALLOC, cuMemCreate, 549)                            \
    X(ALLOC, cuMemAllocAsync, 598)                        \
    X(ALLOC, cuMemAllocAsync_ptsz, 599)                   \
    X(ALLOC, cuMemAllocFromPoolAsync, 611)                \
    X(ALLOC, cuMemAllocFromPoolAsync_ptsz, 612)           \
    X(FREE, cuMemFree_v2, 245)                            \
    X(FREE, cuMemRelease, 550)                            \
    X(FREE, cuMemFreeAsync, 600)                          \
    X(FREE, cuMemFreeAsync_ptsz, 601)
/* The calls of the lists below are newer than the oldest supported CUPTI. Errors of enable_callback() are
 * ignored for them. */
#define CALLS_12_3(X)                                   \
    X(CAPTURE_BEGINS, cuStreamBeginCaptureToGraph, 720) \
    X(CAPTURE_BEGINS, cuStreamBeginCaptureToGraph_ptsz, 721)
#define CALLS_12_8(X)                     \
    X(COPY, cuMemcpyBatchAsync, 776)      \
    X(COPY, cuMemcpyBatchAsync_ptsz, 777) \
    X(COPY, cuMemcpy3DBatchAsync, 778)    \
    X(COPY, cuMemcpy3DBatchAsync_ptsz, 779)
#define CALLS_13_0(X)                          \
    X(COPY, cuMemcpyBatchAsync_v2, 796)        \
    X(COPY, cuMemcpyBatchAsync_v2_ptsz, 797)   \
    X(COPY, cuMemcpy3DBatchAsync_v2, 798)      \
    X(COPY, cuMemcpy3DBatchAsync_v2_ptsz, 799) \
    X(SYNC_CONTEXT, cuCtxSynchronize_v2, 800)
#define CALLS_13_1(X)                              \
    X(COPY, cuMemcpyWithAttributesAsync, 837)      \
    X(COPY, cuMemcpyWithAttributesAsync_ptsz, 838) \
    X(COPY, cuMemcpy3DWithAttributesAsync, 839)    \
    X(COPY, cuMemcpy3DWithAttributesAsync_ptsz, 840)

#define CALLS(X) CALLS_12_0(X) CALLS_12_3(X) CALLS_12_8(X) CALLS_13_0(X) CALLS_13_1(X)

#define CALL_ID(class_, name, id_) CALL_##name = id_,
enum call_id { CALLS(CALL_ID) };
#undef CALL_ID

enum call_class {
    CALL_NONE,
    CALL_LAUNCH,
    CALL_COPY,
    CALL_SYNC_STREAM,
    CALL_SYNC_EVENT,
    CALL_SYNC_WAIT,
    CALL_SYNC_CONTEXT,
    CALL_ALLOC, /* params: result address, size */
    CALL_FREE,  /* params: address or handle */
    CALL_GRAPH_MADE,
    CALL_GRAPH_UPDATED,
    CALL_CAPTURE_BEGINS,
    CALL_CAPTURE_ENDS
};
#define CALLS_MAX_ID 1024

enum call_class call_class(uint32_t id); /* CALL_NONE: not in the table */
const char *call_name(uint32_t id);      /* "unknown": not in the table */
/* Almost all watched calls are one of these two. They need no table lookup. */
static inline bool call_launches_kernel(uint32_t id) {
    return id == CALL_cuLaunchKernel || id == CALL_cuLaunchKernelEx;
}
static inline bool call_launches_graph(uint32_t id) {
    return id == CALL_cuGraphLaunch || id == CALL_cuGraphLaunch_ptsz;
}
static inline bool call_waits(enum call_class c) {
    return c == CALL_SYNC_STREAM || c == CALL_SYNC_EVENT || c == CALL_SYNC_WAIT || c == CALL_SYNC_CONTEXT;
}
static inline bool call_changes_memory(enum call_class c) { return c == CALL_ALLOC || c == CALL_FREE; }
static inline bool call_submits_work(enum call_class c) { return c == CALL_LAUNCH || c == CALL_COPY; }

#endif
