/* Text from outside, made safe for HTML, SVG and script elements. */
#ifndef BASE_HTML_H
#define BASE_HTML_H

#include <stddef.h>

#include "base/strbuf.h"

/* Fit for text and for attributes in double quotes, in HTML and XML. Control characters and bad UTF-8
 * become U+FFFD; so do characters that turn the text after them around (bidirectional overrides). NULL
 * adds nothing. */
void html_escape(struct strbuf *out, const char *s);
/* JSON that sits in a <script> element: of valid JSON, no <, >, &, U+2028 or U+2029 is left as it is. */
void html_script_json(struct strbuf *out, const char *json, size_t n);
void html_base64(struct strbuf *out, const void *data, size_t n); /* for data: links */

#endif
