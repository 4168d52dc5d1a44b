/* NVTX through our own handlers. A program links NVTX as many times as it has libraries that use it; each
 * copy asks to be attached once. In the domain "inferprof" categories carry a meaning (docs/run.md): 1
 * stage, 2 module, 3 operator; marks of category 4 and 5 say that payload tokens were consumed or made. */
#ifndef COLLECT_NVTX_H
#define COLLECT_NVTX_H

#include <stdbool.h>

#include "collect/abi.h"

bool nvtx_attach(nvtx_get_table get_table); /* false: not an NVTX we know */
void nvtx_finish(void);                     /* writes the ranges that are still open */
void nvtx_after_fork(void);

#endif
