#include "base/html.h"

#include <stdint.h>
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"

void html_escape(struct strbuf *out, const char *s) {
    if (!s) return;
    for (const char *p = s, *end = s + strlen(s); p < end;) {
        const char *from = p;
        uint32_t c = utf8_next(&p, end);
        switch (c) {
        case '&': strbuf_addstr(out, "&amp;"); break;
        case '<': strbuf_addstr(out, "&lt;"); break;
        case '>': strbuf_addstr(out, "&gt;"); break;
        case '"': strbuf_addstr(out, "&quot;"); break;
        case '\'': strbuf_addstr(out, "&#39;"); break;
        case '\n':
        case '\t': strbuf_addch(out, (char)c); break;
        default:
            if (utf8_is_unsafe(c))
                strbuf_addstr(out, UTF8_REPLACEMENT);
            else
                strbuf_add(out, from, (size_t)(p - from));
        }
    }
}

void html_script_json(struct strbuf *out, const char *json, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)json[i];
        if (c == '<' || c == '>' || c == '&')
            strbuf_addf(out, "\\u%04x", c);
        else if (c == 0xe2 && i + 2 < n && (unsigned char)json[i + 1] == 0x80 &&
                 ((unsigned char)json[i + 2] | 1) == 0xa9) {
            strbuf_addstr(out, (unsigned char)json[i + 2] == 0xa8 ? "\\u2028" : "\\u2029");
            i += 2;
        } else
            strbuf_addch(out, (char)c);
    }
}

void html_base64(struct strbuf *out, const void *data, size_t n) {
    enum { PIECE = 768 * 3 }; /* multiple of 3: no padding */
    char text[PIECE / 3 * 4];
    for (const char *p = data; n;) {
        size_t part = n < PIECE ? n : PIECE;
        strbuf_add(out, text, base64_encode(p, part, text));
        p += part;
        n -= part;
    }
}
