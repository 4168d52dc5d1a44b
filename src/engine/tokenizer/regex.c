#include "engine/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc_guard.h"
#include "base/die.h"
#include "base/strbuf.h"
#include "base/utf8.h"

/* Limit of PCRE2's steps per search. It is far more than any real pre-tokenizer needs, and PCRE2 reaches it
 * in well under a second. */
#define MATCH_LIMIT 2000000u
#define JIT_STACK_BYTES (1u << 20)

/* Unicode's White_Space. PCRE2's \s also matches U+180E. */
#define SPACES                                                                                               \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{" \
    "3000}"
/* The characters of \w. PCRE2's own \w does not match marks and connectors other than "_". */
#define WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

struct tok_regex {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;
};

struct translation {
    const char *p, *end;
    bool in_class;
    struct strbuf *out;
};

static int refuse(const struct translation *t, const char *what, struct err *err) {
    return err_set(err, "the pattern has %s before \"%.*s\", which is not supported", what,
                   (int)(t->end - t->p > 20 ? 20 : t->end - t->p), t->p);
}

/* Translates one escape sequence. t->p is at the letter after the backslash. */
static int translate_escape(struct translation *t, struct err *err) {
    char c = *t->p++;
    const char *set = c == 's' || c == 'S'   ? SPACES
                      : c == 'w' || c == 'W' ? WORDS
                      : c == 'h'             ? "0-9a-fA-F"
                                             : NULL;
    if (!set) {
        strbuf_addch(t->out, '\\');
        strbuf_addch(t->out, c);
        if (strchr("pPxkgo", c) && t->p < t->end &&
            *t->p == '{') /* \p{L}: these braces are not a repetition */
            while (t->p < t->end && t->out->buf[t->out->len - 1] != '}') strbuf_addch(t->out, *t->p++);
        return 0;
    }
    bool inverse = c == 'S' || c == 'W';
    if (t->in_class && c == 'W') return refuse(t, "\\W inside [ ]", err);
    if (t->in_class) {
        strbuf_addstr(t->out, inverse ? "\\S\\x{180e}" : set);
    } else {
        strbuf_addf(t->out, inverse ? "[^%s]" : "[%s]", set);
    }
    return 0;
}

/* Inside [ ], Oniguruma supports nested classes and intersections; PCRE2 10.42 supports neither. */
static int translate_in_class(struct translation *t, char c, struct err *err) {
    if (c == '[') return refuse(t, "a class inside a class", err);
    if (c == '&' && t->p < t->end && *t->p == '&') return refuse(t, "an intersection of classes", err);
    if (c == ']') t->in_class = false;
    strbuf_addch(t->out, c);
    return 0;
}

static void open_class(struct translation *t) {
    t->in_class = true;
    strbuf_addch(t->out, '[');
    if (t->p < t->end && *t->p == '^') strbuf_addch(t->out, *t->p++);
    /* a closing bracket in the first position is an ordinary character */
    if (t->p < t->end && *t->p == ']') {
        strbuf_addstr(t->out, "\\]");
        t->p++;
    }
}

static int translate(const char *pattern, size_t n, struct strbuf *out, struct err *err) {
    struct translation t = { pattern, pattern + n, false, out };
    while (t.p < t.end) {
        char c = *t.p++;
        if (c == '\\' && t.p < t.end) {
            if (translate_escape(&t, err) < 0) return -1;
        } else if (t.in_class) {
            if (translate_in_class(&t, c, err) < 0) return -1;
        } else if (c == '[') {
            open_class(&t);
        } else if (c == '}' && t.p < t.end && *t.p == '+') {
            return refuse(&t, "a repeated {m,n}", err); /* x{m,n}+ is possessive in PCRE2, repeated in Ruby */
        } else {
            strbuf_addch(out, c);
        }
    }
    return 0;
}

static pcre2_code *compile(const char *pattern, size_t n, uint32_t options, struct err *err) {
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) alloc_failed(0);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, n, options | PCRE2_UTF, &code, &at, context);
    pcre2_compile_context_free(context);
    if (re) return re;
    char why[256];
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    err_set(err, "at character %zu: %s", (size_t)at, why);
    return NULL;
}

static struct tok_regex *wrap(pcre2_code *code) {
    if (!code) return NULL;
    struct tok_regex *re = xcalloc(1, sizeof *re);
    re->code = code;
    re->data = pcre2_match_data_create(1, NULL);
    re->limits = pcre2_match_context_create(NULL);
    if (!re->data || !re->limits) alloc_failed(0);
    pcre2_set_match_limit(re->limits, MATCH_LIMIT);
    if (pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0) { /* without JIT, matching is only slower */
        re->stack = pcre2_jit_stack_create(32 * 1024, JIT_STACK_BYTES, NULL);
        if (re->stack) pcre2_jit_stack_assign(re->limits, NULL, re->stack);
    }
    return re;
}

struct tok_regex *tok_regex_open(const char *pattern, size_t n, struct err *err) {
    struct strbuf text = STRBUF_INIT;
    struct tok_regex *re = NULL;
    if (translate(pattern, n, &text, err) == 0)
        re = wrap(compile(text.buf, text.len, PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, err));
    strbuf_free(&text);
    return re;
}

struct tok_regex *tok_regex_open_literal(const char *text, size_t n, struct err *err) {
    return wrap(compile(text, n, PCRE2_LITERAL, err));
}

void tok_regex_close(struct tok_regex *re) {
    if (!re) return;
    pcre2_jit_stack_free(re->stack);
    pcre2_match_context_free(re->limits);
    pcre2_match_data_free(re->data);
    pcre2_code_free(re->code);
    free(re);
}

static int match_at(struct tok_regex *re, const char *text, size_t n, size_t from) {
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int rc = pcre2_match(re->code, subject, n, from, PCRE2_NO_UTF_CHECK, re->data, re->limits);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    return pcre2_match(re->code, subject, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, re->data, re->limits);
}

int tok_regex_next(struct tok_regex *re, const char *text, size_t n, struct tok_match *m, struct err *err) {
    while (m->from <= n) {
        int rc = match_at(re, text, n, m->from);
        if (rc == PCRE2_ERROR_NOMATCH) return 0;
        if (rc < 0) {
            char why[256];
            pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
            return err_set(err, "a pattern of the tokenizer failed on this text: %s", why);
        }
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(re->data);
        if (at[0] == at[1] && m->had_one && at[1] == m->end) {
            m->from += m->from < n ? utf8_step(text + m->from, text + n) : 1;
            continue;
        }
        if (at[1] < at[0]) return err_set(err, "a pattern of the tokenizer uses \\K in a lookaround");
        *m = (struct tok_match){ at[0], at[1], at[1], true };
        return 1;
    }
    return 0;
}
