/* A small SVG writer. Sizes are in user units. CSS classes set the appearance, so a drawing can be part of a
 * page or a separate file (svg_style).
 *     svg_open(&s, 640, 400, "chart", "Roofline");
 *     svg_rect(&s, 10, 10, 100, 20, "busy");
 *     svg_text(&s, 115, 25, SVG_START, "ink", "decode");
 *     svg_close(&s);
 * Text is escaped. Non-finite numbers are drawn at 0. */
#ifndef BASE_SVG_H
#define BASE_SVG_H

#include "base/strbuf.h"

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };

void svg_open(struct strbuf *out, double width, double height, const char *css_class, const char *title);
/* Call this directly after svg_open(). The CSS must be trusted. */
void svg_style(struct strbuf *out, const char *css);
void svg_close(struct strbuf *out);
void svg_rect(struct strbuf *out, double x, double y, double w, double h, const char *css_class);
/* `title`: tooltip; NULL: none */
void svg_rect_titled(struct strbuf *out, double x, double y, double w, double h, const char *css_class,
                     const char *title);
void svg_line(struct strbuf *out, double x1, double y1, double x2, double y2, const char *css_class);
void svg_text(struct strbuf *out, double x, double y, enum svg_anchor anchor, const char *css_class,
              const char *text);
void svg_circle(struct strbuf *out, double x, double y, double r, const char *css_class,
                const char *title); /* title: tooltip; may be NULL */

/* A polyline. NaN interrupts the line. */
struct svg_path {
    struct strbuf *out;
    int down, open;
    const char *css_class;
};
void svg_path_open(struct svg_path *p, struct strbuf *out, const char *css_class);
void svg_path_to(struct svg_path *p, double x, double y); /* NaN: a gap */
void svg_path_close(struct svg_path *p);

#endif
