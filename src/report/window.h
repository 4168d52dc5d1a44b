/* The part of the timeline that the page draws, as JSON for web/timeline.js. */
#ifndef REPORT_WINDOW_H
#define REPORT_WINDOW_H

#include "report/view.h"

#define WINDOW_MAX_SLICES 100000
#define WINDOW_SLIM_SLICES 5000

/* Returns false if there is nothing to draw. Inside a <script>, escape the JSON with html_script_json(). */
bool window_json(const struct view *v, size_t max_slices, struct strbuf *out);

#endif
