#include "engine/tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/utf8.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/tokenizer/unicode.h"

void tok_added_list_free(struct tok_added_list *l) {
    for (size_t i = 0; i < l->n; i++) free(l->v[i].text);
    free(l->v);
    *l = (struct tok_added_list){ 0 };
}

void tok_matcher_free(struct tok_matcher *m) {
    for (size_t i = 0; i < m->n; i++) free(m->v[i].text);
    free(m->v);
    tok_regex_close(m->word);
    *m = (struct tok_matcher){ 0 };
}

void tok_matcher_add(struct tok_matcher *m, const char *pattern, size_t n, const struct tok_added *token) {
    if (n == 0) return;
    char *copy = xmalloc(n);
    memcpy(copy, pattern, n);
    vec_push(m, ((struct tok_pattern){ copy, n, token }));
    m->starts[(unsigned char)pattern[0]] = true;
}

static int compare_patterns(const void *a, const void *b) {
    const struct tok_pattern *p = a, *q = b;
    int c = memcmp(p->text, q->text, MIN(p->len, q->len));
    return c ? c : p->len < q->len ? -1 : p->len > q->len;
}

void tok_matcher_ready(struct tok_matcher *m) {
    struct err err;
    if (m->n > 0) qsort(m->v, m->n, sizeof *m->v, compare_patterns);
    for (size_t i = 0; i < m->n && !m->word; i++)
        if (m->v[i].token->single_word && !(m->word = tok_regex_open("\\w", 2, &err)))
            die("\\w: %s", err.msg);
}

/* Returns the first pattern of [lo, hi) whose byte at `depth` is at least c. All patterns in [lo, hi) are
 * equal before that byte. */
static size_t lower_bound(const struct tok_matcher *m, size_t lo, size_t hi, size_t depth, unsigned c) {
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        bool less = m->v[mid].len <= depth || (unsigned char)m->v[mid].text[depth] < c;
        if (less) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* Finds the longest pattern at the start of the text. Patterns are sorted, so the patterns that match so
 * far are adjacent. Their range is narrowed byte by byte. */
static const struct tok_pattern *longest_at(const struct tok_matcher *m, const char *p, const char *end) {
    const struct tok_pattern *best = NULL;
    size_t lo = 0, hi = m->n;
    for (size_t depth = 0; lo < hi; depth++) {
        if (m->v[lo].len == depth) best = &m->v[lo]; /* the shortest pattern with this prefix comes first */
        if (p + depth == end) break;
        unsigned c = (unsigned char)p[depth];
        lo = lower_bound(m, lo, hi, depth, c);
        hi = lower_bound(m, lo, hi, depth, c + 1);
    }
    return best;
}

static const char *previous_char(const char *begin, const char *p) {
    for (p--; p > begin && ((unsigned char)*p & 0xc0) == 0x80;) p--;
    return p;
}

static bool is_word(const struct tok_matcher *m, const char *p, const char *end) {
    struct tok_match match = { 0 };
    struct err err;
    return tok_regex_next(m->word, p, (size_t)(end - p), &match, &err) > 0;
}

/* A single_word token must not have a word character (\w) on either side. */
static bool fits(const struct tok_matcher *m, const struct tok_added *t, const char *begin, const char *p,
                 const char *stop, const char *end) {
    if (!t->single_word) return true;
    if (p > begin && is_word(m, previous_char(begin, p), p)) return false;
    return stop == end || !is_word(m, stop, stop + utf8_step(stop, end));
}

static void split_text(const struct tok_matcher *m, const char *begin, size_t n, bool first,
                       struct tok_pieces *out) {
    const char *end = begin + n, *done = begin;
    for (const char *p = begin; p < end;) {
        const struct tok_pattern *hit = m->starts[(unsigned char)*p] ? longest_at(m, p, end) : NULL;
        if (!hit) {
            p++;
            continue;
        }
        const char *start = p, *stop = p + hit->len;
        p = stop;
        if (!fits(m, hit->token, begin, start, stop, end)) continue;
        if (hit->token->lstrip) start = unicode_skip_spaces_back(done < start ? done : start, start);
        if (hit->token->rstrip) stop = unicode_skip_spaces(stop, end);
        if (start > done) tok_pieces_add(out, done, (size_t)(start - done), first && done == begin);
        tok_pieces_add_token(out, hit->token->id);
        done = stop;
    }
    if (done < end) tok_pieces_add(out, done, (size_t)(end - done), first && done == begin);
}

void tok_matcher_split(const struct tok_matcher *m, const struct tok_pieces *in, struct tok_pieces *out) {
    tok_pieces_clear(out);
    for (size_t i = 0; i < in->n; i++) {
        if (in->v[i].id != TOKENIZER_NONE) {
            tok_pieces_add_token(out, in->v[i].id);
        } else {
            split_text(m, tok_piece_text(in, i), in->v[i].len, in->v[i].first, out);
        }
    }
}
