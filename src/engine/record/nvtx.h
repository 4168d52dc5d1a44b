/* Ranges for an NVTX tool (NVTX_INJECTION64_PATH): push and pop only. The tool's library is loaded as
 * NVIDIA's headers do it; without a tool every call returns at once. */
#ifndef ENGINE_RECORD_NVTX_H
#define ENGINE_RECORD_NVTX_H

#include <stdbool.h>

void nvtx_attach(void); /* once; later calls do nothing */
bool nvtx_attached(void);
void nvtx_push(const char *name);
void nvtx_pop(void);

#endif
