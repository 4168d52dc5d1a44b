/* Facts about a run that are only in its traces. */
#ifndef RUN_TRACE_FACTS_H
#define RUN_TRACE_FACTS_H

#include "base/strlist.h"
#include "timeline/timeline.h"

/* Returns the name of the first device with a name that ran a kernel, else of the first device with a name;
 * NULL: none. `tl` may be NULL. */
const char *run_trace_device(const struct timeline *tl);
/* Returns a title such as "python serve.py on NVIDIA H200"; without a command in the trace, `otherwise` is
 * used. The caller frees it. */
char *run_trace_title(const struct timeline *tl, const char *otherwise);
/* Adds problems of the traces: losses, damage, missing ends. Skips problems that the list already
 * contains. */
void run_trace_problems(const struct timeline *tl, struct strlist *list);
/* Adds a line unless the list already contains it. */
void run_add_problem(struct strlist *list, const char *line);

#endif
