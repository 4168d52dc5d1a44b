/* The part of the CUDA driver API that measuring the bandwidth needs, loaded at run time. Building needs
 * neither the toolkit nor its headers. */
#ifndef SESSION_CUDA_API_H
#define SESSION_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    CUDA_OK = 0,
    CUDA_ATTRIBUTE_SMS = 16,
    CUDA_ATTRIBUTE_L2_BYTES = 38,
    CUDA_ATTRIBUTE_CC_MAJOR = 75,
};

struct cuda_api {
    void *library;
    int (*init)(unsigned flags);
    int (*device_count)(int *n);
    int (*device)(int *device, int ordinal);
    int (*device_name)(char *name, int cap, int device);
    int (*device_attribute)(int *value, int attribute, int device);
    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*context_set)(void *context);
    int (*module_load)(void **module, const void *image);
    int (*module_unload)(void *module);
    int (*module_function)(void **function, void *module, const char *name);
    int (*memory_info)(size_t *free_bytes, size_t *total_bytes);
    int (*memory_alloc)(uint64_t *pointer, size_t bytes);
    int (*memory_free)(uint64_t pointer);
    int (*memory_set)(uint64_t pointer, unsigned char value, size_t bytes);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_synchronize)(void *event);
    int (*event_elapsed)(float *ms, void *start, void *end);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared_bytes, void *stream, void **arguments, void **extra);
    int (*error_string)(int error, const char **text);
};

/* Loads and initialises libcuda.so.1. Returns -1 on failure; see err. */
int cuda_api_open(struct cuda_api *api, struct err *err);
/* Sets err to "WHAT: <message of the driver>" and returns -1. */
int cuda_fail(const struct cuda_api *api, int error, const char *what, struct err *err);

#endif
