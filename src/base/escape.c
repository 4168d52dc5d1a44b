#include "base/escape.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "base/util.h"

/* Renderers make links of https://host and www.host. */
static bool starts_a_link(const char *p, const char *text) {
    return strncmp(p, "://", 3) == 0 || (*p == '.' && p - text >= 3 && strncasecmp(p - 3, "www", 3) == 0);
}

/* Renderers make links of a@b.c, also if the @ is escaped. */
static bool is_mail_address(const char *at, const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+";
    size_t host = strspn(at + 1, letters);
    return at > text && strchr(letters, at[-1]) && memchr(at + 1, '.', host);
}

void escape_markdown(struct strbuf *out, const char *text) {
    struct strbuf clean = STRBUF_INIT;
    if (!text) return;
    strbuf_add_printable(&clean, text, strlen(text));
    for (const char *p = clean.buf; *p; p++) {
        bool at_start = p == clean.buf;
        if (*p == '<')
            strbuf_addstr(out, "&lt;");
        else if (*p == '&')
            strbuf_addstr(out, "&amp;");
        else if (*p == '@' && is_mail_address(p, clean.buf))
            strbuf_addstr(out, "<!-- -->@"); /* the comment ends the address */
        else {
            /* Escaped brackets prevent links and images. # and > are special only at the start. */
            if (strchr("\\`*_[]|~", *p) || (at_start && (*p == '#' || *p == '>')) ||
                starts_a_link(p, clean.buf))
                strbuf_addch(out, '\\');
            strbuf_addch(out, *p);
        }
    }
    strbuf_free(&clean);
}

void escape_markdown_block(struct strbuf *out, const char *language, const char *text, size_t n) {
    size_t longest = 2, run = 0;
    for (size_t i = 0; i < n; i++) {
        run = text[i] == '`' ? run + 1 : 0;
        longest = MAX(longest, run);
    }
    strbuf_addchars(out, '`', longest + 1);
    strbuf_addf(out, "%s\n", language);
    for (const char *p = text, *end = text + n; p < end;) {
        const char *line = memchr(p, '\n', (size_t)(end - p)), *stop = line ? line : end;
        strbuf_add_printable(out, p, (size_t)(stop - p));
        strbuf_addch(out, '\n');
        p = line ? line + 1 : end;
    }
    strbuf_addchars(out, '`', longest + 1);
    strbuf_addch(out, '\n');
}

static bool is_kept_control(uint32_t c) { return c == '\n' || c == '\r' || c == '\t'; }

void escape_csv(struct strbuf *out, const char *text) {
    char *after;
    strtod(text, &after);
    bool number = *text && *after == '\0';
    bool formula = !number && *text && strchr("=+-@\t\r", *text);
    bool quote = formula || strpbrk(text, ",\"\r\n");
    if (quote) strbuf_addstr(out, formula ? "\"'" : "\"");
    for (const char *p = text, *end = text + strlen(text); p < end;) {
        const char *from = p;
        uint32_t c = utf8_next(&p, end);
        if (c == '"') strbuf_addch(out, '"');
        if (utf8_is_unsafe(c) && !is_kept_control(c))
            strbuf_addstr(out, UTF8_REPLACEMENT);
        else
            strbuf_add(out, from, (size_t)(p - from));
    }
    if (quote) strbuf_addch(out, '"');
}

void escape_in_place(char *text) {
    char *out = text;
    for (const char *p = text, *end = text + strlen(text); p < end;) {
        const char *from = p;
        uint32_t c = utf8_next(&p, end);
        size_t n = (size_t)(p - from);
        if (utf8_is_unsafe(c) && c != '\n' && c != '\t') {
            *out++ = '?';
        } else {
            memmove(out, from, n);
            out += n;
        }
    }
    *out = '\0';
}
