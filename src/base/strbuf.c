#include "base/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc_guard.h"
#include "base/die.h"
#include "base/utf8.h"
#include "base/vec.h"

char strbuf_empty[1] = "";

static void reserve(struct strbuf *s, size_t extra) {
    if (extra > SIZE_MAX - s->len - 1) alloc_failed(extra);
    char *owned = s->buf == strbuf_empty ? NULL : s->buf;
    s->buf = vec_fit(owned, s->len + extra + 1, &s->cap, 1);
}

void strbuf_free(struct strbuf *s) {
    if (s->buf != strbuf_empty) free(s->buf);
    *s = (struct strbuf)STRBUF_INIT;
}

void strbuf_reset(struct strbuf *s) {
    s->len = 0;
    if (s->buf != strbuf_empty) s->buf[0] = '\0';
}

char *strbuf_detach(struct strbuf *s) {
    reserve(s, 0);
    s->buf[s->len] = '\0';
    char *text = s->buf;
    *s = (struct strbuf)STRBUF_INIT;
    return text;
}

void strbuf_add(struct strbuf *s, const void *data, size_t n) {
    if (n == 0) return;
    reserve(s, n);
    memcpy(s->buf + s->len, data, n);
    s->len += n;
    s->buf[s->len] = '\0';
}

void strbuf_addstr(struct strbuf *s, const char *text) { strbuf_add(s, text, strlen(text)); }
void strbuf_addch(struct strbuf *s, char c) { strbuf_add(s, &c, 1); }

void strbuf_addchars(struct strbuf *s, char c, size_t times) {
    if (times == 0) return;
    reserve(s, times);
    memset(s->buf + s->len, c, times);
    s->len += times;
    s->buf[s->len] = '\0';
}

void strbuf_vaddf(struct strbuf *s, const char *fmt, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0) die("bad format: %s", fmt);
    reserve(s, (size_t)n);
    vsnprintf(s->buf + s->len, (size_t)n + 1, fmt, again);
    va_end(again);
    s->len += (size_t)n;
}

void strbuf_addf(struct strbuf *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(s, fmt, ap);
    va_end(ap);
}

void strbuf_add_printable(struct strbuf *s, const char *text, size_t n) {
    const char *p = text, *end = text + n;
    while (p < end) {
        const char *from = p;
        uint32_t c = utf8_next(&p, end);
        if (utf8_is_unsafe(c))
            strbuf_addstr(s, UTF8_REPLACEMENT);
        else
            strbuf_add(s, from, (size_t)(p - from));
    }
}

size_t strbuf_replace(struct strbuf *s, const char *from, size_t nfrom, const char *to, size_t nto) {
    const char *p = s->buf, *end = s->buf + s->len, *hit = memmem(p, s->len, from, nfrom);
    struct strbuf out = STRBUF_INIT;
    size_t hits = 0;
    if (!hit) return 0;
    for (; hit; hit = memmem(p, (size_t)(end - p), from, nfrom), hits++) {
        strbuf_add(&out, p, (size_t)(hit - p));
        strbuf_add(&out, to, nto);
        p = hit + nfrom;
    }
    strbuf_add(&out, p, (size_t)(end - p));
    strbuf_free(s);
    *s = out;
    return hits;
}

void strbuf_add_shell_word(struct strbuf *s, const char *word) {
    if (*word && !word[strcspn(word, " \t\r\n'\"\\$&;|<>()*?[]{}#`!~")]) {
        strbuf_addstr(s, word);
        return;
    }
    strbuf_addch(s, '\'');
    for (const char *p = word; *p; p++)
        if (*p == '\'')
            strbuf_addstr(s, "'\\''");
        else
            strbuf_addch(s, *p);
    strbuf_addch(s, '\'');
}

void strbuf_add_shell_words(struct strbuf *s, char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (i) strbuf_addch(s, ' ');
        strbuf_add_shell_word(s, words[i]);
    }
}
