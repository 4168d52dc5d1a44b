/* Facts from traces. */
#ifndef RUN_TRACE_FACTS_H
#define RUN_TRACE_FACTS_H

#include "base/strlist.h"
#include "timeline/timeline.h"

/* The first named device that ran a kernel, else the first named device. NULL: none. `tl` may be NULL. */
const char *run_trace_device(const struct timeline *tl);
/* "python serve.py on NVIDIA H200". Without a command in the trace, uses `otherwise`. Caller frees. */
char *run_trace_title(const struct timeline *tl, const char *otherwise);
/* Adds losses, damage and missing ends, unless the list already contains them. */
void run_trace_warnings(const struct timeline *tl, struct strlist *list);
/* unless the list contains it */
void run_add_warning(struct strlist *list, const char *line);

#endif
