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

/* Column of the second part of a line such as "  key   description": after two or more spaces. Without a
 * second part, two columns more than the first part. */
static size_t hanging_indent(const char *line, size_t n) {
    size_t first = strspn(line, " ");
    for (size_t i = first; i + 2 < n; i++) {
        if (line[i] != ' ' || line[i + 1] != ' ') continue;
        return i + strspn(line + i, " ");
    }
    return first + 2;
}

static void wrap_indented(struct strbuf *out, const char *line, size_t n, size_t width) {
    struct strbuf text = STRBUF_INIT;
    size_t first = strspn(line, " ");
    if (!width || utf8_width(line, n) <= width) {
        strbuf_add(out, line, n);
        strbuf_addch(out, '\n');
        return;
    }
    strbuf_addchars(out, ' ', first);
    strbuf_add(&text, line + first, n - first);
    size_t indent = hanging_indent(line, n);
    wrap_text(out, text.buf, first, width, indent > width / 2 ? first + 2 : indent);
    strbuf_free(&text);
}

void wrap_paragraphs(struct strbuf *out, const char *text, size_t width) {
    struct strbuf paragraph = STRBUF_INIT;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        if (n == 0 || *p == ' ') {
            flush(out, &paragraph, width);
            wrap_indented(out, p, n, width);
        } else {
            if (paragraph.len) strbuf_addch(&paragraph, ' ');
            strbuf_add(&paragraph, p, n);
        }
        p += n + (p[n] == '\n');
    }
    flush(out, &paragraph, width);
    strbuf_free(&paragraph);
}
