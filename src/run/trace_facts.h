/* What traces say about the run they are of, when nothing else does. */
#ifndef RUN_TRACE_FACTS_H
#define RUN_TRACE_FACTS_H

#include "base/strlist.h"
#include "timeline/timeline.h"

/* The device's name: the first that ran a kernel, else the first with a name; NULL: none. `tl` may be
 * NULL. */
const char *run_trace_device(const struct timeline *tl);
/* "python serve.py on NVIDIA H200"; the command defaults to `otherwise`. The caller frees. */
char *run_trace_title(const struct timeline *tl, const char *otherwise);
/* Reasons to doubt the traces: losses, damage, missing ends. A line that the list already has is not
 * added. */
void run_trace_problems(const struct timeline *tl, struct strlist *list);
/* Adds a line unless the list already has it. */
void run_add_problem(struct strlist *list, const char *line);

#endif
