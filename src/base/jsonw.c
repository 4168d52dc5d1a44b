#include "base/jsonw.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/utf8.h"
#include "base/util.h"

void jsonw_start(struct jsonw *j, struct strbuf *out, enum jsonw_style style) {
    *j = (struct jsonw){ .out = out, .style = style };
}

static void write_newline(struct jsonw *j) {
    if (j->style != JSONW_PRETTY) return;
    strbuf_addch(j->out, '\n');
    strbuf_addchars(j->out, ' ', (size_t)j->depth * 2);
}

static void next_item(struct jsonw *j) {
    bool *has = &j->has_items[j->depth - 1];
    if (*has) strbuf_addch(j->out, ',');
    *has = true;
    write_newline(j);
}

/* Call before each value. Writes the comma in arrays. Ends the program if a key is missing or the top level
 * already has a value. */
static void before_value(struct jsonw *j) {
    if (j->depth == 0) {
        if (j->done) die("jsonw: a second top-level value");
        return;
    }
    if (j->kind[j->depth - 1] == '{') {
        if (!j->have_key) die("jsonw: a value without a key");
        j->have_key = false;
        return;
    }
    next_item(j);
}

static void after_value(struct jsonw *j) {
    if (j->depth == 0) j->done = true;
}

static void open_nest(struct jsonw *j, char kind) {
    before_value(j);
    if (j->depth == (int)COUNTOF(j->kind)) die("jsonw: nested deeper than %d", j->depth);
    j->kind[j->depth] = kind;
    j->has_items[j->depth] = false;
    j->depth++;
    strbuf_addch(j->out, kind);
}

void jsonw_object(struct jsonw *j) { open_nest(j, '{'); }
void jsonw_array(struct jsonw *j) { open_nest(j, '['); }

void jsonw_end(struct jsonw *j) {
    if (j->depth == 0 || j->have_key) die("jsonw: end without a start, or after a key");
    j->depth--;
    if (j->has_items[j->depth]) write_newline(j);
    strbuf_addch(j->out, j->kind[j->depth] == '{' ? '}' : ']');
    after_value(j);
}

void jsonw_finish(struct jsonw *j) {
    if (j->depth != 0 || !j->done) die("jsonw: finished with %d levels open", j->depth);
    if (j->style == JSONW_PRETTY) strbuf_addch(j->out, '\n');
}

void jsonw_quote(struct strbuf *out, const char *text, size_t n) {
    static const char *const named[32] = {
        ['\b'] = "\\b", ['\f'] = "\\f", ['\n'] = "\\n", ['\r'] = "\\r", ['\t'] = "\\t"
    };
    strbuf_addch(out, '"');
    for (const char *p = text, *end = text + n; p < end;) {
        const char *from = p;
        uint32_t c = utf8_next(&p, end);
        if (c == UTF8_BAD)
            strbuf_addstr(out, UTF8_REPLACEMENT);
        else if (c == '"' || c == '\\')
            strbuf_addf(out, "\\%c", (char)c);
        else if (c < 0x20 && named[c])
            strbuf_addstr(out, named[c]);
        else if (utf8_is_unsafe(c) && c < 0x10000)
            strbuf_addf(out, "\\u%04x", (unsigned)c);
        else
            strbuf_add(out, from, (size_t)(p - from));
    }
    strbuf_addch(out, '"');
}

void jsonw_key(struct jsonw *j, const char *key) {
    if (j->depth == 0 || j->kind[j->depth - 1] != '{' || j->have_key)
        die("jsonw: key \"%s\" out of place", key);
    next_item(j);
    jsonw_quote(j->out, key, strlen(key));
    strbuf_addstr(j->out, j->style == JSONW_PRETTY ? ": " : ":");
    j->have_key = true;
}

static void raw_value(struct jsonw *j, const char *text) {
    before_value(j);
    strbuf_addstr(j->out, text);
    after_value(j);
}

void jsonw_strn(struct jsonw *j, const char *text, size_t n) {
    before_value(j);
    jsonw_quote(j->out, text, n);
    after_value(j);
}

void jsonw_str(struct jsonw *j, const char *text) {
    if (text)
        jsonw_strn(j, text, strlen(text));
    else
        jsonw_null(j);
}

void jsonw_u64(struct jsonw *j, uint64_t v) {
    if (v > INT64_MAX)
        jsonw_num(j, (double)v);
    else
        jsonw_u64_exact(j, v);
}

void jsonw_u64_exact(struct jsonw *j, uint64_t v) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, v);
    raw_value(j, text);
}

void jsonw_i64(struct jsonw *j, int64_t v) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, v);
    raw_value(j, text);
}

void jsonw_num(struct jsonw *j, double v) {
    char text[40];
    if (!isfinite(v)) {
        jsonw_null(j);
        return;
    }
    if (v == floor(v) && fabs(v) < 1e15)
        snprintf(text, sizeof text, "%.0f", v + 0.0);
    else
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, v);
            if (strtod(text, NULL) == v) break;
        }
    raw_value(j, text);
}

void jsonw_bool(struct jsonw *j, bool v) { raw_value(j, v ? "true" : "false"); }
void jsonw_null(struct jsonw *j) { raw_value(j, "null"); }

void jsonw_kstr(struct jsonw *j, const char *key, const char *text) {
    jsonw_key(j, key);
    jsonw_str(j, text);
}
void jsonw_ku64(struct jsonw *j, const char *key, uint64_t v) {
    jsonw_key(j, key);
    jsonw_u64(j, v);
}
void jsonw_knum(struct jsonw *j, const char *key, double v) {
    jsonw_key(j, key);
    jsonw_num(j, v);
}
void jsonw_kbool(struct jsonw *j, const char *key, bool v) {
    jsonw_key(j, key);
    jsonw_bool(j, v);
}
void jsonw_ku64_known(struct jsonw *j, const char *key, uint64_t v) {
    jsonw_key(j, key);
    if (v)
        jsonw_u64(j, v);
    else
        jsonw_null(j);
}
void jsonw_kbool_known(struct jsonw *j, const char *key, int v) {
    jsonw_key(j, key);
    if (v < 0)
        jsonw_null(j);
    else
        jsonw_bool(j, v != 0);
}
void jsonw_kobject(struct jsonw *j, const char *key) {
    jsonw_key(j, key);
    jsonw_object(j);
}
void jsonw_karray(struct jsonw *j, const char *key) {
    jsonw_key(j, key);
    jsonw_array(j);
}
