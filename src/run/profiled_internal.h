/* Shared by the files that assemble a profiled run. */
#ifndef RUN_PROFILED_INTERNAL_H
#define RUN_PROFILED_INTERNAL_H

#include "run/profiled.h"

/* profiled_stages.c */
void profiled_fill_stages(struct profiled_run *r,
                          const struct profiled_session *session); /* timings, works */
void profiled_fill_recorded(struct profiled_run *r,
                            const struct profiled_session *session);           /* costs, tokens */
const struct engine_answer *profiled_answer(const struct session_repeat *rep); /* all NaN if it has none */
double
profiled_decoded(const struct engine_answer *a); /* tokens that decode made: not the first of a sequence */

/* profiled_figures.c */
void profiled_fill_figures(struct profiled_run *r, const struct profiled_session *session);
double profiled_request_ms(const struct engine_answer *a); /* preprocessing, prefill and decode */

/* profiled_notes.c: assumptions and problems, in words */
void profiled_fill_notes(struct profiled_run *r, const struct profiled_session *session);

#endif
