/* Converts NVTX ranges and marks from the events of nvtx.c to records of the trace. Pushed ranges belong
 * to their thread; started ranges may end on any thread. Called on the program's threads (host.h), and at
 * the end of a thread or of the process to write the ranges that are still open. */
#ifndef COLLECT_NVTX_RANGES_H
#define COLLECT_NVTX_RANGES_H

#include <stdint.h>

#include "collect/nvtx_names.h"

/* One event, from any of the NVTX functions. */
struct nvtx_event {
    uint32_t domain, category;
    uint32_t own; /* enum nvtx_own; 0: an ordinary event */
    const char *text;
    uint32_t registered; /* number in NVTX_STRINGS, used instead of text; 0: none */
    double payload;
    char wide[NVTX_TEXT_MAX]; /* buffer for `text` if the program passed wide characters */
};

int nvtx_range_push(const struct nvtx_event *e);       /* depth; -1: not recorded */
int nvtx_range_pop(uint32_t domain);                   /* depth; -1: no range was popped */
uint64_t nvtx_range_start(const struct nvtx_event *e); /* id; 0: not recorded */
void nvtx_range_end(uint64_t id);
void nvtx_range_mark(const struct nvtx_event *e);

void nvtx_ranges_start(void);  /* call before the first event */
void nvtx_ranges_finish(void); /* service thread: writes the ranges that are still open */
void nvtx_ranges_after_fork(void);

#endif
