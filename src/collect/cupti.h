/* Loads libcupti at run time: the file named by INFERPROF_COLLECT_CUPTI, else the copy that the program has
 * already loaded (PyTorch ships its own), else a copy with the major version of the loaded CUDA runtime, or
 * the newest one if no runtime is loaded. Called once, from cuInit(). */
#ifndef COLLECT_CUPTI_H
#define COLLECT_CUPTI_H

#include <stdbool.h>

#include "collect/abi.h"

struct cupti_api {
    void *library;
    char path[512];
    uint32_t version;
    int (*get_version)(uint32_t *);
    int (*result_string)(int, const char **);
    int (*timestamp)(uint64_t *);
    int (*subscribe)(void **, cupti_callback, void *);
    int (*unsubscribe)(void *);
    int (*enable_callback)(uint32_t, void *, int, uint32_t);
    int (*register_buffers)(cupti_buffer_request, cupti_buffer_complete);
    int (*enable)(int);
    int (*disable)(int);
    int (*next_record)(uint8_t *, size_t, uint8_t **);
    int (*dropped)(void *, uint32_t, size_t *);
    int (*flush_all)(uint32_t);
    int (*finalize)(void);                                 /* may be NULL */
    int (*stream_id)(void *, void *, uint8_t, uint32_t *); /* may be NULL */
    int (*graph_id)(void *, uint32_t *);                   /* may be NULL */
    int (*device_id)(void *, uint32_t *);                  /* may be NULL */
};
extern struct cupti_api cupti; /* library NULL: not loaded */

bool cupti_load(void);             /* On failure, calls report_problem() and returns false. */
const char *cupti_error(int code); /* "an unknown error": no name */

#endif
