#include "engine/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "engine/tokenizer/internal.h"

#define MAX_FILE_BYTES (256u << 20)

struct tokenizer *tok_new(void) {
    struct tokenizer *t = xcalloc(1, sizeof *t);
    t->bpe = tok_bpe_open();
    tok_pieces_init(&t->pieces);
    tok_pieces_init(&t->work);
    return t;
}

static struct tokenizer *open_root(json_t *root, const char *what, struct err *err) {
    if (!root) return NULL;
    struct tokenizer *t = tok_new();
    int rc = tok_load(t, root, err);
    json_decref(root);
    if (rc == 0) return t;
    err_wrap(err, "%s", what);
    tokenizer_close(t);
    return NULL;
}

struct tokenizer *tokenizer_open(const char *path, struct err *err) {
    char *inside = file_is_dir(path) ? file_join(path, "tokenizer.json") : xstrdup(path);
    struct tokenizer *t = open_root(jsonr_load_path(inside, MAX_FILE_BYTES, err), inside, err);
    free(inside);
    return t;
}

struct tokenizer *tokenizer_open_text(const char *json, size_t n, const char *what, struct err *err) {
    return open_root(jsonr_load_text(json, n, what, err), what, err);
}

void tokenizer_close(struct tokenizer *t) {
    if (!t) return;
    for (size_t i = 0; i < t->decoder.nreplace; i++) {
        free(t->decoder.replace[i].from);
        free(t->decoder.replace[i].to);
    }
    free(t->decoder.replace);
    tok_matcher_free(&t->raw);
    tok_matcher_free(&t->cooked);
    tok_added_list_free(&t->added);
    tok_steps_free(&t->normalizer);
    tok_steps_free(&t->pre_tokenizer);
    tok_pieces_free(&t->pieces);
    tok_pieces_free(&t->work);
    tok_bpe_close(t->bpe);
    free(t->added_at.v);
    free(t->prefix.v);
    free(t->suffix.v);
    free(t);
}

const struct tok_added *tok_find_added(const struct tokenizer *t, uint32_t id) {
    return id < t->added_at.n && t->added_at.v[id] ? &t->added.v[t->added_at.v[id] - 1] : NULL;
}

uint32_t tokenizer_size(const struct tokenizer *t) {
    uint32_t model = tok_bpe_size(t->bpe), added = (uint32_t)t->added_at.n;
    return model > added ? model : added;
}

uint32_t tokenizer_find(const struct tokenizer *t, const char *token) {
    for (size_t i = 0; i < t->added.n; i++)
        if (t->added.v[i].len == strlen(token) && memcmp(t->added.v[i].text, token, t->added.v[i].len) == 0)
            return t->added.v[i].id;
    return tok_bpe_find(t->bpe, token, strlen(token));
}

const char *tokenizer_token(const struct tokenizer *t, uint32_t id) {
    const struct tok_added *a = tok_find_added(t, id);
    size_t n;
    return a ? a->text : tok_bpe_text(t->bpe, id, &n);
}

/* ---- encoding */
static void start_pieces(struct tokenizer *t, const char *text, size_t n) {
    tok_pieces_clear(&t->pieces);
    if (utf8_valid(text, n)) {
        tok_pieces_add(&t->pieces, text, n, true);
        return;
    }
    struct strbuf clean = STRBUF_INIT;
    for (const char *p = text, *end = text + n; p < end;) {
        const char *from = p;
        if (utf8_next(&p, end) == UTF8_BAD) {
            strbuf_addstr(&clean, UTF8_REPLACEMENT);
        } else {
            strbuf_add(&clean, from, (size_t)(p - from));
        }
    }
    tok_pieces_add(&t->pieces, clean.buf, clean.len, true);
    strbuf_free(&clean);
}

static void split_added(struct tokenizer *t, const struct tok_matcher *m) {
    if (m->n == 0) return;
    tok_matcher_split(m, &t->pieces, &t->work);
    struct tok_pieces swap = t->pieces;
    t->pieces = t->work;
    t->work = swap;
}

static void add_all(struct token_ids *to, const struct token_ids *from) {
    for (size_t i = 0; i < from->n; i++) vec_push(to, from->v[i]);
}

int tokenizer_encode(struct tokenizer *t, const char *text, size_t n, enum tokenizer_special special,
                     struct token_ids *ids, struct err *err) {
    start_pieces(t, text, n);
    split_added(t, &t->raw);
    if (tok_steps_run(&t->normalizer, &t->pieces, &t->work, err) < 0) return -1;
    split_added(t, &t->cooked);
    if (tok_steps_run(&t->pre_tokenizer, &t->pieces, &t->work, err) < 0) return -1;
    if (special == TOKENIZER_ADD_SPECIAL) add_all(ids, &t->prefix);
    for (size_t i = 0; i < t->pieces.n; i++) {
        const struct tok_piece *p = &t->pieces.v[i];
        if (p->id != TOKENIZER_NONE) {
            vec_push(ids, p->id);
        } else {
            tok_bpe_encode(t->bpe, tok_piece_text(&t->pieces, i), p->len, ids);
        }
    }
    if (special == TOKENIZER_ADD_SPECIAL) add_all(ids, &t->suffix);
    return 0;
}
