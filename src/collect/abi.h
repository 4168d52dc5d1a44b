/* Declarations of the parts of CUPTI, NVTX and cuBLASLt that the collector uses, so that it builds without
 * their headers. If the headers of CUPTI or NVTX are installed, abi_check.c compares these declarations with
 * them. */
#ifndef COLLECT_ABI_H
#define COLLECT_ABI_H

#include <stddef.h>
#include <stdint.h>

/* ---- CUPTI */
enum {
    CUPTI_OK = 0,
    CUPTI_E_MAX_LIMIT = 12,
    CUPTI_E_INVALID_KIND = 21,
    CUPTI_E_NOT_SUPPORTED = 27,
    CUPTI_E_VIRTUALIZED = 33,
    CUPTI_E_PRIVILEGES = 35,
    CUPTI_E_MULTIPLE_SUBSCRIBERS = 39,
    CUPTI_E_MIG = 43,
};
enum {
    KIND_MEMCPY = 1,
    KIND_MEMSET = 2,
    KIND_DEVICE = 8,
    KIND_CONCURRENT_KERNEL = 10,
    KIND_MEMCPY2 = 22, /* copies between GPUs */
    KIND_GRAPH_TRACE = 51,
};
enum { DOMAIN_DRIVER = 1, DOMAIN_RUNTIME = 2, DOMAIN_RESOURCE = 3 };
enum { RESOURCE_CONTEXT_CREATED = 1, RESOURCE_CONTEXT_DESTROY = 2, RESOURCE_CU_INIT_FINISHED = 5 };
enum { SITE_ENTER = 0, SITE_EXIT = 1 };
enum { FLUSH_FORCED = 1 };

struct cupti_callback_data { /* CUpti_CallbackData */
    int32_t site;
    const char *function;
    const void *params;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_uid;
    uint64_t *correlation_data;
    uint32_t correlation;
};
typedef void (*cupti_callback)(void *user, int domain, uint32_t cbid, const void *data);
typedef void (*cupti_buffer_request)(uint8_t **buffer, size_t *bytes, size_t *max_records);
typedef void (*cupti_buffer_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                      size_t valid_bytes);

/* ---- NVTX */
enum { NVTX_TABLE_CALLBACKS = 1 };
enum {
    NVTX_MODULE_CORE = 1,
    NVTX_MODULE_CUDA = 2,
    NVTX_MODULE_CUDART = 4,
    NVTX_MODULE_CORE2 = 5,
    NVTX_MODULES
};
enum { NVTX_TEXT_ASCII = 1, NVTX_TEXT_WIDE = 2, NVTX_TEXT_REGISTERED = 3 };
enum {
    NVTX_PAYLOAD_U64 = 1,
    NVTX_PAYLOAD_I64 = 2,
    NVTX_PAYLOAD_F64 = 3,
    NVTX_PAYLOAD_U32 = 4,
    NVTX_PAYLOAD_I32 = 5,
    NVTX_PAYLOAD_F32 = 6
};
struct nvtx_attributes { /* nvtxEventAttributes_t */
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    union {
        uint64_t u64;
        int64_t i64;
        double f64;
        uint32_t u32;
        int32_t i32;
        float f32;
    } payload;
    int32_t text_type;
    const void *text; /* char *, wchar_t *, or registered string */
};
typedef void (*nvtx_function)(void);
struct nvtx_callbacks { /* NvtxExportTableCallbacks */
    size_t bytes;
    int (*get_module)(int module, nvtx_function ***table, unsigned *n); /* table: addresses of slots */
};
typedef const void *(*nvtx_get_table)(uint32_t id);

/* ---- cuBLASLt */
typedef void (*cublaslt_logger)(int level, const char *function, const char *message);

#endif
