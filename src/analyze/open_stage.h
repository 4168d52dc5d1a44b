/* Finds the stage that is open at a given time on a thread.
 *     struct open_stages *s = open_stages_make(c);
 *     uint32_t o = open_stage_at(s, thread, process, time_ns, &until_ns);
 *     open_stages_free(s); */
#ifndef ANALYZE_OPEN_STAGE_H
#define ANALYZE_OPEN_STAGE_H

#include "analyze/internal.h"

struct open_stages;
struct open_stages *open_stages_make(const struct context *c);
void open_stages_free(struct open_stages *s);

/* Returns the innermost occurrence that is open on the thread. If the thread never marks a stage or is
 * TIMELINE_NONE, returns the outermost occurrence that is open in the process, if there is exactly one.
 * ANALYSIS_NONE: no such occurrence. The result is valid until *until_ns. */
uint32_t open_stage_at(const struct open_stages *s, uint32_t thread, uint32_t process, uint64_t time_ns,
                       uint64_t *until_ns);

#endif
