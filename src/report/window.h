/* The part of the timeline that the page draws, as JSON for web/timeline.js. */
#ifndef REPORT_WINDOW_H
#define REPORT_WINDOW_H

#include "report/view.h"

#define WINDOW_MAX_SLICES 100000
#define WINDOW_SLIM_SLICES 5000
#define WINDOW_OTHERS 4 /* further windows of a trace that is not shown whole */
#define WINDOW_OTHER_SLICES 20000

/* Writes the typical occurrence of a stage. ANALYSIS_NONE: the whole trace, or that of the longest stage if
 * the trace has more than max_slices slices. Returns false if there is nothing to draw. Inside a <script>,
 * escape the JSON with html_script_json(). */
bool window_json(const struct view *v, uint32_t stage, size_t max_slices, struct strbuf *out);
uint32_t window_longest_stage(const struct analysis *a); /* ANALYSIS_NONE: no stage */

#endif
