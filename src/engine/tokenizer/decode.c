#include <string.h>

#include "base/utf8.h"
#include "engine/tokenizer/internal.h"

/* ---- bytes to characters */

/* Returns the length of the character that begins with the bytes [p, p+n), or 0 if no character can begin
 * with them. If the character is invalid or incomplete, one U+FFFD replaces its first *bad bytes. */
static size_t char_needs(const unsigned char *p, size_t n, size_t *bad) {
    unsigned c = p[0];
    size_t need = c < 0x80                ? 1
                  : c >= 0xc2 && c < 0xe0 ? 2
                  : c >= 0xe0 && c < 0xf0 ? 3
                  : c >= 0xf0 && c < 0xf5 ? 4
                                          : 0;
    *bad = 1;
    for (size_t i = 1; i < need && i < n; i++) {
        unsigned low = 0x80, high = 0xbf;
        if (i == 1 && c == 0xe0) low = 0xa0;
        if (i == 1 && c == 0xed) high = 0x9f;
        if (i == 1 && c == 0xf0) low = 0x90;
        if (i == 1 && c == 0xf4) high = 0x8f;
        if (p[i] < low || p[i] > high) return 0;
        *bad = i + 1;
    }
    return need;
}

static void put_char(struct token_stream *s, const char *p, size_t n, struct strbuf *out) {
    const struct tok_decoder *d = &s->t->decoder;
    if (s->strip_left > 0 && n == strlen(d->strip) && memcmp(p, d->strip, n) == 0) {
        s->strip_left--;
        return;
    }
    s->strip_left = 0;
    strbuf_add(out, p, n);
}

/* Moves all complete characters from `held` to the output. Bytes that cannot form a character become
 * U+FFFD; if `all` is set, so does an incomplete character at the end. */
static void emit_complete(struct token_stream *s, bool all, struct strbuf *out) {
    size_t done = 0;
    while (done < s->nheld) {
        size_t left = s->nheld - done, bad, need = char_needs(s->held + done, left, &bad);
        if (need > left && !all) break;
        if (need > 0 && need <= left) {
            put_char(s, (const char *)s->held + done, need, out);
            done += need;
        } else {
            put_char(s, UTF8_REPLACEMENT, 3, out);
            done += bad;
        }
    }
    memmove(s->held, s->held + done, s->nheld - done);
    s->nheld -= done;
}

static void put_byte(struct token_stream *s, unsigned char byte, struct strbuf *out) {
    s->held[s->nheld++] = byte; /* at most three bytes are held, so there is space for one more */
    emit_complete(s, false, out);
}

static void put_text(struct token_stream *s, const char *p, size_t n, struct strbuf *out) {
    for (size_t i = 0; i < n; i++) put_byte(s, (unsigned char)p[i], out);
}

/* ---- the kinds of decoders */
static bool in_alphabet(const char *p, const char *end) {
    while (p < end)
        if (tok_char_to_byte(utf8_next(&p, end)) < 0) return false;
    return true;
}

static void put_alphabet(struct token_stream *s, const char *p, size_t n, struct strbuf *out) {
    const char *end = p + n;
    if (!in_alphabet(p, end)) {
        put_text(s, p, n, out);
        return;
    }
    while (p < end) put_byte(s, (unsigned char)tok_char_to_byte(utf8_next(&p, end)), out);
}

static void replace_all(const struct tok_replace *r, struct strbuf *text) {
    strbuf_replace(text, r->from, r->nfrom, r->to, r->nto);
}

static void put_replaced(struct token_stream *s, const char *p, size_t n, struct strbuf *out) {
    const struct tok_decoder *d = &s->t->decoder;
    struct strbuf text = STRBUF_INIT;
    strbuf_add(&text, p, n);
    for (size_t i = 0; i < d->nreplace; i++) replace_all(&d->replace[i], &text);
    put_text(s, text.buf, text.len, out);
    strbuf_free(&text);
}

/* The marker becomes a space. In the first token, it is dropped unless keep_first is set. */
static void put_metaspace(struct token_stream *s, const char *p, size_t n, struct strbuf *out) {
    const struct tok_decoder *d = &s->t->decoder;
    struct tok_replace r = d->replace[0];
    struct strbuf text = STRBUF_INIT;
    if (s->tokens == 0 && !d->keep_first) r.nto = 0;
    strbuf_add(&text, p, n);
    replace_all(&r, &text);
    put_text(s, text.buf, text.len, out);
    strbuf_free(&text);
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* Returns the byte of a token such as <0xE4>; -1 for other tokens and without byte fallback. */
static int fallback_byte(const struct tok_decoder *d, const char *text, size_t n) {
    if (!d->byte_fallback || n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static void put_token(struct token_stream *s, const char *text, size_t n, bool added, struct strbuf *out) {
    const struct tok_decoder *d = &s->t->decoder;
    int byte = fallback_byte(d, text, n);
    if (byte >= 0) {
        put_byte(s, (unsigned char)byte, out);
        return;
    }
    if (d->kind != TOK_DECODER_BYTES) emit_complete(s, true, out); /* ends a sequence of fallback bytes */
    switch (d->kind) {
    case TOK_DECODER_NONE:
        if (s->tokens > 0) put_byte(s, ' ', out);
        put_text(s, text, n, out);
        break;
    case TOK_DECODER_BYTES:
        if (added) {
            put_text(s, text, n, out);
        } else {
            put_alphabet(s, text, n, out);
        }
        break;
    case TOK_DECODER_TEXT: put_replaced(s, text, n, out); break;
    case TOK_DECODER_METASPACE: put_metaspace(s, text, n, out); break;
    }
}

/* ---- interface */
void token_stream_init(struct token_stream *s, const struct tokenizer *t, enum tokenizer_skip skip) {
    *s = (struct token_stream){ .t = t, .skip = skip, .strip_left = t->decoder.strip_count };
}

/* Returns the text of a token, or NULL if the token does not exist or is a special token to be skipped. */
static const char *token_text(const struct token_stream *s, uint32_t id, size_t *n, bool *added) {
    const struct tok_added *a = tok_find_added(s->t, id);
    *added = a != NULL;
    if (!a) return tok_bpe_text(s->t->bpe, id, n);
    *n = a->len;
    return a->special && s->skip == TOKENIZER_SKIP_SPECIAL ? NULL : a->text;
}

void token_stream_next(struct token_stream *s, uint32_t id, struct strbuf *out) {
    size_t n;
    bool added;
    const char *text = token_text(s, id, &n, &added);
    if (!text) return;
    put_token(s, text, n, added, out);
    s->tokens++;
}

void token_stream_finish(struct token_stream *s, struct strbuf *out) { emit_complete(s, true, out); }

/* Writes a sequence of fallback bytes. Unless the whole sequence is valid UTF-8, each byte becomes U+FFFD. */
static void put_run(struct token_stream *s, struct strbuf *run, struct strbuf *out) {
    bool good = utf8_valid(run->buf, run->len);
    if (good) put_text(s, run->buf, run->len, out);
    for (size_t i = 0; i < run->len && !good; i++) put_char(s, UTF8_REPLACEMENT, 3, out);
    strbuf_reset(run);
}

void tokenizer_decode(const struct tokenizer *t, const uint32_t *ids, size_t n, enum tokenizer_skip skip,
                      struct strbuf *out) {
    struct token_stream s;
    struct strbuf run = STRBUF_INIT;
    token_stream_init(&s, t, skip);
    for (size_t i = 0; i < n; i++) {
        size_t len;
        bool added;
        const char *text = token_text(&s, ids[i], &len, &added);
        int byte = text ? fallback_byte(&t->decoder, text, len) : -1;
        if (byte >= 0) {
            strbuf_addch(&run, (char)byte);
        } else if (text) {
            put_run(&s, &run, out);
            put_token(&s, text, len, added, out);
        }
        s.tokens += text != NULL;
    }
    put_run(&s, &run, out);
    token_stream_finish(&s, out);
    strbuf_free(&run);
}
