/* Charts as SVG, for the page and as standalone files. */
#ifndef REPORT_CHARTS_H
#define REPORT_CHARTS_H

#include "report/view.h"

struct chart_form {
    double width;
    const char *css_class; /* "wide", "narrow" */
    bool alone;            /* standalone file with its style */
};

/* Return false and write nothing if there is nothing to draw. */
bool chart_stages(const struct view *v, const struct chart_form *form, struct strbuf *out);
bool chart_roofline(const struct view *v, const struct chart_form *form, struct strbuf *out);
bool chart_power(const struct view *v, const struct chart_form *form, struct strbuf *out);
bool chart_kernels(const struct view *v, const struct chart_form *form, struct strbuf *out);
bool chart_batch(const struct view *v, const struct chart_form *form, struct strbuf *out);
bool chart_anatomy(const struct view *v, const struct chart_form *form, struct strbuf *out);

bool chart_flame(const struct view *v, const struct chart_form *form, struct strbuf *out);
bool chart_memory(const struct view *v, const struct chart_form *form, struct strbuf *out);
bool chart_memory_of(const struct analysis_memory *m, const struct chart_form *form, struct strbuf *out);

bool chart_power_of(const struct analysis_power *p, const struct chart_form *form, struct strbuf *out);
/* Starts an SVG. A standalone file also gets the colours of the page. End it with svg_close(). */
void chart_open(const struct chart_form *form, double height, const char *title, struct strbuf *out);

struct chart {
    const char *name; /* "roofline": charts/roofline.svg */
    bool (*draw)(const struct view *v, const struct chart_form *form, struct strbuf *out);
};
extern const struct chart charts[];
extern const size_t charts_n;

/* Returns the colour of a kernel category: --c0 to --c12 in web/report.css, plus CHART_HATCHED if it is drawn
 * with stripes. Every category is different. */
#define CHART_HATCHED 16
int chart_category_color(enum kernel_category category);

#endif
