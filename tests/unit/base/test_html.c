#include <math.h>
#include <string.h>

#include "base/html.h"
#include "base/svg.h"
#include "unit/test.h"

TEST(html_escape_removes_markup) {
    struct strbuf s = STRBUF_INIT;
    html_escape(&s, "<script>alert(\"1\" & '2')</script>");
    CHECK_STR(s.buf, "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;");
    strbuf_reset(&s);
    html_escape(&s, "a\x01\xff\xe2\x80\xae"
                    "b\xc3\xa9\n"); /* control, bad byte, right-to-left override */
    CHECK_STR(s.buf, "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                     "b\xc3\xa9\n");
    html_escape(&s, NULL);
    strbuf_free(&s);
}

TEST(html_script_json_cannot_end_the_script) {
    struct strbuf s = STRBUF_INIT;
    const char json[] = "[\"</script><!--&\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\"]";
    html_script_json(&s, json, strlen(json));
    CHECK_STR(s.buf, "[\"\\u003c/script\\u003e\\u003c!--\\u0026\\u2028\\u2029\xe2\x80\xaa\"]");
    strbuf_free(&s);
}

TEST(html_base64_pads) {
    struct strbuf s = STRBUF_INIT;
    html_base64(&s, "Man", 3);
    html_base64(&s, "Ma", 2);
    html_base64(&s, "M", 1);
    CHECK_STR(s.buf, "TWFuTWE=TQ==");
    strbuf_free(&s);
}

TEST(svg_escapes_text_and_skips_unknown_points) {
    struct strbuf s = STRBUF_INIT;
    struct svg_path p;
    svg_open(&s, 640, 400, "wide", "a < b");
    svg_text(&s, NAN, 2, SVG_END, "ink", "<k>");
    svg_path_open(&p, &s, "line");
    svg_path_to(&p, 0, 0);
    svg_path_to(&p, NAN, 1);
    svg_path_to(&p, 2, 2);
    svg_path_close(&p);
    svg_close(&s);
    CHECK_STR(
        s.buf,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"wide\" viewBox=\"0 0 640 400\" width=\"640\" "
        "height=\"400\" role=\"img\"><title>a &lt; b</title>\n"
        "<text class=\"ink\" x=\"0.00\" y=\"2.00\" text-anchor=\"end\">&lt;k&gt;</text>\n"
        "<path class=\"line\" d=\"M0.00 0.00M2.00 2.00\"/>\n</svg>\n");
    strbuf_free(&s);
}
