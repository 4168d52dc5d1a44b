/* The stretch of the timeline that the page draws, as JSON for web/timeline.js. */
#ifndef REPORT_WINDOW_H
#define REPORT_WINDOW_H

#include "report/view.h"

#define WINDOW_MAX_SLICES 100000
#define WINDOW_SLIM_SLICES 5000

/* False: there is nothing to draw. The JSON is not yet safe inside a <script>: html_script_json() it. */
bool window_json(const struct view *v, size_t max_slices, struct strbuf *out);

#endif
