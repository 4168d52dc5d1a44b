/* Converts the NVTX events of nvtx.c to trace records. Pushed ranges belong to their thread; started
 * ranges may end on any thread. Ranges that are still open at the end of their thread or process are
 * written then. */
#ifndef COLLECT_NVTX_RANGES_H
#define COLLECT_NVTX_RANGES_H

#include <stdint.h>

#include "collect/nvtx_names.h"

/* Argument of an NVTX function. */
struct nvtx_event {
    uint32_t domain, category;
    uint32_t own; /* enum nvtx_own; 0: none */
    const char *text;
    uint32_t registered; /* in NVTX_STRINGS; 0: use `text` */
    double payload;
    char wide[NVTX_TEXT_MAX]; /* `text` converted from wide characters */
};

int nvtx_range_push(const struct nvtx_event *e);       /* depth; -1: not recorded */
int nvtx_range_pop(uint32_t domain);                   /* depth; -1: nothing popped */
uint64_t nvtx_range_start(const struct nvtx_event *e); /* id; 0: not recorded */
void nvtx_range_end(uint64_t id);
void nvtx_range_mark(const struct nvtx_event *e);

void nvtx_ranges_start(void);  /* call before the first event */
void nvtx_ranges_finish(void); /* Service thread: writes the ranges that are still open. */
void nvtx_ranges_after_fork(void);

#endif
