#include "engine/tokenizer/step.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/vec.h"
#include "engine/tokenizer/unicode.h"

struct span {
    size_t start, end;
    bool match;
};
struct spans {
    struct span *v;
    size_t n, cap;
};

void tok_steps_free(struct tok_steps *s) {
    for (size_t i = 0; i < s->n; i++) {
        tok_regex_close(s->v[i].re);
        free(s->v[i].text);
    }
    free(s->v);
    *s = (struct tok_steps){ 0 };
}

/* ---- the byte alphabet */
static bool stands_for_itself(uint32_t c) {
    return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

uint32_t tok_byte_to_char(uint8_t byte) {
    if (stands_for_itself(byte)) return byte;
    /* the other bytes: 0..32, 127..160 and 173 */
    return 256u + (byte <= 32 ? byte : byte <= 160 ? byte - 127u + 33 : 67);
}

int tok_char_to_byte(uint32_t c) {
    if (c < 256) return stands_for_itself(c) ? (int)c : -1;
    if (c < 256 + 33) return (int)(c - 256);
    if (c < 256 + 67) return (int)(c - 256 - 33 + 127);
    return c == 256 + 67 ? 173 : -1;
}

static void map_bytes(const char *text, size_t n, struct strbuf *out) {
    char c[4];
    for (size_t i = 0; i < n; i++) strbuf_add(out, c, utf8_put(tok_byte_to_char((uint8_t)text[i]), c));
}

/* ---- splits */
static int find_spans(struct tok_regex *re, const char *text, size_t n, bool invert, struct spans *out,
                      struct err *err) {
    struct tok_match m = { 0 };
    size_t done = 0;
    int rc;
    out->n = 0;
    while ((rc = tok_regex_next(re, text, n, &m, err)) > 0) {
        if (m.start > done) vec_push(out, ((struct span){ done, m.start, invert }));
        vec_push(out, ((struct span){ m.start, m.end, !invert }));
        done = m.end;
    }
    if (rc == 0 && done < n) vec_push(out, ((struct span){ done, n, invert }));
    return rc;
}

/* Joins spans from the left. With TOK_SPLIT_MERGED_WITH_PREVIOUS, a match is joined with the span before it,
 * unless that span is a match too. With TOK_SPLIT_CONTIGUOUS, neighbours of the same kind are joined. */
static void join(struct spans *s, enum tok_split split) {
    size_t n = 0;
    bool previous = false;
    for (size_t i = 0; i < s->n; i++) {
        struct span x = s->v[i];
        bool glue = split == TOK_SPLIT_CONTIGUOUS ? x.match == previous : x.match && !previous;
        if (glue && n > 0) {
            s->v[n - 1].end = x.end;
        } else {
            s->v[n++] = x;
        }
        previous = x.match;
    }
    s->n = n;
}

/* Joins spans from the right. A match is joined with the span after it, unless that span is a match too. */
static void join_next(struct spans *s) {
    size_t n = s->n; /* the result is built at [n, s->n) */
    bool previous = false;
    for (size_t i = s->n; i-- > 0;) {
        struct span x = s->v[i];
        if (x.match && !previous && n < s->n) {
            s->v[n].start = x.start;
        } else {
            s->v[--n] = x;
        }
        previous = x.match;
    }
    memmove(s->v, s->v + n, (s->n - n) * sizeof *s->v);
    s->n -= n;
}

static int split_piece(const struct tok_step *step, const char *text, const struct tok_piece *piece,
                       struct spans *spans, struct tok_pieces *out, struct err *err) {
    if (find_spans(step->re, text, piece->len, step->invert, spans, err) < 0) return -1;
    if (step->split == TOK_SPLIT_MERGED_WITH_NEXT) join_next(spans);
    if (step->split == TOK_SPLIT_MERGED_WITH_PREVIOUS || step->split == TOK_SPLIT_CONTIGUOUS)
        join(spans, step->split);
    for (size_t i = 0; i < spans->n; i++) {
        struct span s = spans->v[i];
        if (step->split == TOK_SPLIT_REMOVED && s.match) continue;
        tok_pieces_add(out, text + s.start, s.end - s.start, piece->first && s.start == 0);
    }
    return 0;
}

/* ---- steps that convert one piece to one piece */
static int replace(const struct tok_step *step, const char *text, size_t n, struct strbuf *out,
                   struct err *err) {
    struct tok_match m = { 0 };
    size_t done = 0;
    int rc;
    while ((rc = tok_regex_next(step->re, text, n, &m, err)) > 0) {
        strbuf_add(out, text + done, m.start - done);
        strbuf_add(out, step->text, step->len);
        done = m.end;
    }
    strbuf_add(out, text + done, n - done);
    return rc;
}

static void prepend(const struct tok_step *step, const char *text, const struct tok_piece *piece,
                    struct strbuf *out) {
    bool there = piece->len >= step->len && memcmp(text, step->text, step->len) == 0;
    bool wanted =
        step->kind == TOK_STEP_PREPEND || (!there && (step->kind == TOK_STEP_PREPEND_UNLESS || piece->first));
    if (wanted) strbuf_add(out, step->text, step->len);
    strbuf_add(out, text, piece->len);
}

static void strip(const struct tok_step *step, const char *text, size_t n, struct strbuf *out) {
    const char *p = text, *end = text + n;
    if (step->left) p = unicode_skip_spaces(p, end);
    if (step->right) end = unicode_skip_spaces_back(p, end);
    strbuf_add(out, p, (size_t)(end - p));
}

static int change_piece(const struct tok_step *step, const char *text, const struct tok_piece *piece,
                        struct strbuf *out, struct err *err) {
    switch (step->kind) {
    case TOK_STEP_PREPEND:
    case TOK_STEP_PREPEND_UNLESS:
    case TOK_STEP_PREPEND_FIRST: prepend(step, text, piece, out); return 0;
    case TOK_STEP_REPLACE: return replace(step, text, piece->len, out, err);
    case TOK_STEP_BYTES: map_bytes(text, piece->len, out); return 0;
    case TOK_STEP_NFC: unicode_nfc(text, piece->len, out); return 0;
    case TOK_STEP_NFD: unicode_nfd(text, piece->len, out); return 0;
    case TOK_STEP_STRIP: strip(step, text, piece->len, out); return 0;
    case TOK_STEP_SPLIT: break;
    }
    return 0;
}

static int run_step(const struct tok_step *step, const struct tok_pieces *in, struct tok_pieces *out,
                    struct err *err) {
    struct strbuf changed = STRBUF_INIT;
    struct spans spans = { 0 };
    int rc = 0;
    tok_pieces_clear(out);
    for (size_t i = 0; i < in->n && rc == 0; i++) {
        const struct tok_piece *piece = &in->v[i];
        if (piece->id != TOKENIZER_NONE) {
            tok_pieces_add_token(out, piece->id);
        } else if (step->kind == TOK_STEP_SPLIT) {
            rc = split_piece(step, tok_piece_text(in, i), piece, &spans, out, err);
        } else {
            strbuf_reset(&changed);
            rc = change_piece(step, tok_piece_text(in, i), piece, &changed, err);
            tok_pieces_add(out, changed.buf, changed.len, piece->first);
        }
    }
    strbuf_free(&changed);
    free(spans.v);
    return rc;
}

int tok_steps_run(const struct tok_steps *s, struct tok_pieces *pieces, struct tok_pieces *work,
                  struct err *err) {
    for (size_t i = 0; i < s->n; i++) {
        if (run_step(&s->v[i], pieces, work, err) < 0) return -1;
        struct tok_pieces t = *pieces;
        *pieces = *work;
        *work = t;
    }
    return 0;
}
