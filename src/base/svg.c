#include "base/svg.h"

#include <math.h>

#include "base/html.h"

static double finite_or_0(double v) { return isfinite(v) ? v : 0; }

void svg_open(struct strbuf *out, double width, double height, const char *css_class, const char *title) {
    strbuf_addf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"%s\" viewBox=\"0 0 %.4g %.4g\" "
                "width=\"%.4g\" height=\"%.4g\" role=\"img\"><title>",
                css_class, width, height, width, height);
    html_escape(out, title);
    strbuf_addstr(out, "</title>\n");
}

void svg_style(struct strbuf *out, const char *css) { strbuf_addf(out, "<style>%s</style>\n", css); }

void svg_close(struct strbuf *out) { strbuf_addstr(out, "</svg>\n"); }

void svg_rect(struct strbuf *out, double x, double y, double w, double h, const char *css_class) {
    svg_rect_titled(out, x, y, w, h, css_class, NULL);
}

void svg_rect_titled(struct strbuf *out, double x, double y, double w, double h, const char *css_class,
                     const char *title) {
    strbuf_addf(out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", css_class,
                finite_or_0(x), finite_or_0(y), fmax(0, finite_or_0(w)), fmax(0, finite_or_0(h)));
    if (title) {
        strbuf_addstr(out, "><title>");
        html_escape(out, title);
        strbuf_addstr(out, "</title></rect>\n");
    } else {
        strbuf_addstr(out, "/>\n");
    }
}

void svg_line(struct strbuf *out, double x1, double y1, double x2, double y2, const char *css_class) {
    strbuf_addf(out, "<line class=\"%s\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/>\n", css_class,
                finite_or_0(x1), finite_or_0(y1), finite_or_0(x2), finite_or_0(y2));
}

void svg_text(struct strbuf *out, double x, double y, enum svg_anchor anchor, const char *css_class,
              const char *text) {
    static const char *const anchors[] = { "start", "middle", "end" };
    strbuf_addf(out, "<text class=\"%s\" x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\">", css_class,
                finite_or_0(x), finite_or_0(y), anchors[anchor]);
    html_escape(out, text);
    strbuf_addstr(out, "</text>\n");
}

void svg_circle(struct strbuf *out, double x, double y, double r, const char *css_class, const char *title) {
    strbuf_addf(out, "<circle class=\"%s\" cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\">", css_class, finite_or_0(x),
                finite_or_0(y), finite_or_0(r));
    if (title) {
        strbuf_addstr(out, "<title>");
        html_escape(out, title);
        strbuf_addstr(out, "</title>");
    }
    strbuf_addstr(out, "</circle>\n");
}

void svg_path_open(struct svg_path *p, struct strbuf *out, const char *css_class) {
    *p = (struct svg_path){ .out = out, .css_class = css_class };
}

void svg_path_to(struct svg_path *p, double x, double y) {
    if (!isfinite(x) || !isfinite(y)) {
        p->down = 0;
        return;
    }
    if (!p->open) strbuf_addf(p->out, "<path class=\"%s\" d=\"", p->css_class);
    strbuf_addf(p->out, "%c%.2f %.2f", p->down ? 'L' : 'M', x, y);
    p->open = p->down = 1;
}

void svg_path_close(struct svg_path *p) {
    if (p->open) strbuf_addstr(p->out, "\"/>\n");
    p->open = p->down = 0;
}
