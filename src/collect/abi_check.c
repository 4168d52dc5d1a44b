/* Compares abi.h and the callback ids of calls.h with the headers of CUPTI and NVTX at compile time, if these
 * are installed. Generates no code. */
#include "collect/abi.h"
#include "collect/calls.h"

#if defined(__has_include) && !defined(__cppcheck__)
#if __has_include(<cupti.h>) && __has_include(<cuda.h>)
#include <cupti.h>

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " differs from " #theirs)
SAME(CUPTI_E_MAX_LIMIT, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME(CUPTI_E_INVALID_KIND, CUPTI_ERROR_INVALID_KIND);
SAME(CUPTI_E_PRIVILEGES, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
SAME(CUPTI_E_VIRTUALIZED, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED);
SAME(CUPTI_E_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME(CUPTI_E_MIG, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED);
SAME(KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
SAME(KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
SAME(KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME(KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMCPY2);
SAME(KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
SAME(DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
SAME(DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
SAME(RESOURCE_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
SAME(RESOURCE_CONTEXT_DESTROY, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
SAME(RESOURCE_CU_INIT_FINISHED, CUPTI_CBID_RESOURCE_CU_INIT_FINISHED);
SAME(FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME(sizeof(struct cupti_callback_data), sizeof(CUpti_CallbackData));
SAME(offsetof(struct cupti_callback_data, context_uid), offsetof(CUpti_CallbackData, contextUid));
SAME(offsetof(struct cupti_callback_data, correlation), offsetof(CUpti_CallbackData, correlationId));
#define X(class_, name, id) SAME(id, CUPTI_DRIVER_TRACE_CBID_##name);
CALLS_12_0(X)
#if CUPTI_API_VERSION >= 22
CALLS_12_3(X)
#endif
#if CUPTI_API_VERSION >= 26
CALLS_12_8(X)
#endif
#if CUPTI_API_VERSION >= 130001
CALLS_13_0(X)
#endif
#if CUPTI_API_VERSION >= 130101
CALLS_13_1(X)
#endif
#undef X
#endif

#if __has_include(<nvtx3/nvToolsExt.h>)
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#undef NVTX_PAYLOAD_U64
_Static_assert(sizeof(struct nvtx_attributes) == sizeof(nvtxEventAttributes_t), "NVTX event attributes");
_Static_assert(offsetof(struct nvtx_attributes, text) == offsetof(nvtxEventAttributes_t, message),
               "NVTX message");
_Static_assert(offsetof(struct nvtx_attributes, payload) == offsetof(nvtxEventAttributes_t, payload),
               "NVTX payload");
_Static_assert((int)NVTX_MODULE_CORE2 == (int)NVTX_CB_MODULE_CORE2, "NVTX module numbers");
_Static_assert(sizeof(struct nvtx_callbacks) == sizeof(NvtxExportTableCallbacks), "NVTX callbacks table");
#endif
#endif

typedef int abi_check_is_not_empty;
