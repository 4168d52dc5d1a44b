#include "base/wrap.h"

#include <string.h>

#include "base/utf8.h"

void wrap_text(struct strbuf *out, const char *text, size_t at, size_t width, size_t indent) {
    struct strbuf clean = STRBUF_INIT;
    strbuf_add_printable(&clean, text, strlen(text));
    for (const char *p = clean.buf; *p;) {
        size_t n = strcspn(p, " "), w = utf8_width(p, n);
        if (width && at + w + 1 > width && at > indent) {
            strbuf_addch(out, '\n');
            strbuf_addchars(out, ' ', indent);
            at = indent;
        } else if (p != clean.buf) {
            strbuf_addch(out, ' ');
            at++;
        }
        strbuf_add(out, p, n);
        at += w;
        p += n + (p[n] == ' ');
    }
    strbuf_addch(out, '\n');
    strbuf_free(&clean);
}

void wrap_lines(struct strbuf *out, const char *text, size_t width) {
    struct strbuf line = STRBUF_INIT;
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        strbuf_reset(&line);
        strbuf_add(&line, text, n);
        wrap_text(out, line.buf ? line.buf : "", 0, utf8_width(text, n) > width ? width : 0, 2);
    }
    strbuf_free(&line);
}

static void flush(struct strbuf *out, struct strbuf *paragraph, size_t width) {
    if (paragraph->len) wrap_text(out, paragraph->buf, 0, width, 0);
    strbuf_reset(paragraph);
}

void wrap_paragraphs(struct strbuf *out, const char *text, size_t width) {
    struct strbuf paragraph = STRBUF_INIT;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        if (n == 0 || *p == ' ') {
            flush(out, &paragraph, width);
            strbuf_add(out, p, n);
            strbuf_addch(out, '\n');
        } else {
            if (paragraph.len) strbuf_addch(&paragraph, ' ');
            strbuf_add(&paragraph, p, n);
        }
        p += n + (p[n] == '\n');
    }
    flush(out, &paragraph, width);
    strbuf_free(&paragraph);
}
