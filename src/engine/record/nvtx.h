/* Ranges for an NVTX tool (NVTX_INJECTION64_PATH): push and pop only, in the domain "inferprof", or in the
 * default domain if the tool has no domains. The tool's library is loaded in the same way as by NVIDIA's
 * headers. Without a tool, every call returns immediately. */
#ifndef ENGINE_RECORD_NVTX_H
#define ENGINE_RECORD_NVTX_H

#include <stdbool.h>

void nvtx_attach(void); /* only the first call has an effect */
bool nvtx_attached(void);
void nvtx_push(const char *name);
void nvtx_pop(void);

#endif
