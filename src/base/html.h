/* Escapes for HTML, SVG and scripts. */
#ifndef BASE_HTML_H
#define BASE_HTML_H

#include <stddef.h>

#include "base/strbuf.h"

/* For text and for attributes in double quotes, in HTML and XML. Unsafe characters (utf8_is_unsafe), except
 * newlines and tabs, become U+FFFD. NULL adds nothing. */
void html_escape(struct strbuf *out, const char *s);
/* For valid JSON inside a <script> element: escapes <, >, &, U+2028 and U+2029. */
void html_script_json(struct strbuf *out, const char *json, size_t n);
void html_base64(struct strbuf *out, const void *data, size_t n); /* for data: URLs */

#endif
