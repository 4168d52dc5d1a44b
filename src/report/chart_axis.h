/* Axes of charts with their units, and areas that show numbers under the mouse pointer. */
#ifndef REPORT_CHART_AXIS_H
#define REPORT_CHART_AXIS_H

#include <stdint.h>

#include "base/strbuf.h"
#include "report/charts.h"

/* Edges of a plot in pixels. y grows downwards. */
struct chart_box {
    double left, right, top, bottom;
};

/* Draws a horizontal time axis below the box, from 0 to `span_ns`. All labels have the same unit. */
void chart_time_axis(const struct chart_box *box, double span_ns, struct strbuf *out);
/* Draws the lines for 0, half of `most` and `most`, with labels on the left. `unit` is "" for counts. */
void chart_value_axis(const struct chart_box *box, double most, const char *unit, struct strbuf *out);

/* Values over time as invisible columns of at least CHART_HOVER_PX pixels, each with a tooltip. The caller
 * fills the struct; `title` writes the tooltip for the samples from `first` to `last`. */
#define CHART_HOVER_PX 5.0
struct chart_hover {
    struct chart_box box;
    size_t n;
    /* Returns the left edge of a sample. The sample `n` is the right edge of the last one. */
    double (*x)(const void *data, size_t sample);
    void (*title)(const void *data, size_t first, size_t last, struct strbuf *out);
    const void *data;
};
/* Draws nothing in narrow charts: they are for phones, which have no mouse pointer. */
void chart_hover(const struct chart_hover *hover, const struct chart_form *form, struct strbuf *out);

#endif
