/* Charts as SVG, for the page and as standalone files. */
#ifndef REPORT_CHARTS_H
#define REPORT_CHARTS_H

#include "report/view.h"

#define CHART_WIDE 600 /* narrower charts are for phones */
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

/* Colours are numbers: 0 to 12 are --c0 to --c12 of web/report.css. CHART_HATCHED is added if the colour is
 * drawn with stripes. */
#define CHART_COLORS 13
#define CHART_HATCHED 16
/* Every category has another colour. */
int chart_category_color(enum kernel_category category);
/* Every role has another colour. A role that is also a category has the colour of the category. */
int chart_role_color(enum kernel_role role);
/* CSS class of a colour: "c3" or "c3 hatched" for prefix 'c' (background), "r3" for 'r' (fill in SVG). */
struct chart_class {
    char s[16];
} chart_class(char prefix, int color);
/* A rectangle with this colour. `title`: tooltip; NULL: none. The stripes are lines: browsers take minutes to
 * print a thousand rectangles that are filled with an SVG pattern. */
void chart_rect(double x, double y, double w, double h, int color, const char *title, struct strbuf *out);
void chart_stripes(double x, double y, double w, double h, struct strbuf *out);
/* Writes a style sheet that gives every category a pattern in print: in the sections of kernels and of the
 * timeline. */
void chart_print_style(struct strbuf *out);

#endif
