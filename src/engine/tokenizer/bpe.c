#include "engine/tokenizer/bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/intern.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "base/util.h"
#include "base/vec.h"

#define CACHE_WORDS 65536u
#define CACHE_WORD_BYTES 64u /* longer words are not cached, because they rarely repeat */
/* ids of the characters below this are in a table; the byte alphabet is below it */
#define SMALL_CHARS 0x200u

struct merge {
    uint64_t pair; /* left id << 32 | right id; UINT64_MAX: empty slot */
    uint32_t rank, id;
};

struct symbol {
    uint32_t id;
    uint32_t prev, next; /* NONE at the ends of the word */
};

struct candidate {
    uint64_t order; /* rank << 32 | position of the left symbol */
    uint32_t id;    /* id of the merged pair */
};

#define NONE UINT32_MAX
#define NO_PAIR UINT64_MAX

struct tok_bpe {
    struct intern *texts;
    struct token_ids id_of;   /* index by text number */
    struct token_ids text_of; /* index by id; NONE: no token has this id */
    struct {
        struct merge *slots;
        size_t cap, n; /* cap is a power of two */
    } merges;
    char *prefix, *suffix;
    uint32_t unk, byte_id[256], small[SMALL_CHARS];
    bool fuse_unk, byte_fallback, ignore_merges;
    struct intern *cached;
    struct {
        struct span {
            uint32_t start, n;
        } * v;
        size_t n, cap;
    } cached_at;
    struct token_ids cached_ids;
    struct { /* scratch memory for one word */
        struct symbol *v;
        size_t n, cap;
    } symbols;
    struct {
        struct candidate *v;
        size_t n, cap;
    } heap;
    struct strbuf spelling;
};

struct tok_bpe *tok_bpe_open(void) {
    struct tok_bpe *b = xcalloc(1, sizeof *b);
    b->texts = intern_open();
    b->cached = intern_open();
    b->prefix = xstrdup("");
    b->suffix = xstrdup("");
    b->unk = NONE;
    b->spelling = (struct strbuf)STRBUF_INIT;
    return b;
}

void tok_bpe_close(struct tok_bpe *b) {
    if (!b) return;
    intern_close(b->texts);
    intern_close(b->cached);
    free(b->id_of.v);
    free(b->text_of.v);
    free(b->merges.slots);
    free(b->prefix);
    free(b->suffix);
    free(b->cached_at.v);
    free(b->cached_ids.v);
    free(b->symbols.v);
    free(b->heap.v);
    strbuf_free(&b->spelling);
    free(b);
}

int tok_bpe_add_token(struct tok_bpe *b, const char *text, size_t n, uint32_t id, struct err *err) {
    if (id >= TOK_MAX_ID) return err_set(err, "token id %u is too large (limit %u)", id, TOK_MAX_ID);
    uint32_t number = intern_id(b->texts, text, n);
    while (b->id_of.n <= number) vec_push(&b->id_of, NONE);
    while (b->text_of.n <= id) vec_push(&b->text_of, NONE);
    b->id_of.v[number] = id;
    b->text_of.v[id] = number;
    return 0;
}

uint32_t tok_bpe_find(const struct tok_bpe *b, const char *text, size_t n) {
    uint32_t number = intern_find(b->texts, text, n);
    return number == INTERN_NONE ? NONE : b->id_of.v[number];
}

const char *tok_bpe_text(const struct tok_bpe *b, uint32_t id, size_t *n) {
    if (id >= b->text_of.n || b->text_of.v[id] == NONE) return NULL;
    *n = intern_len(b->texts, b->text_of.v[id]);
    return intern_text(b->texts, b->text_of.v[id]);
}

uint32_t tok_bpe_size(const struct tok_bpe *b) { return (uint32_t)b->text_of.n; }

int tok_bpe_set(struct tok_bpe *b, const struct tok_bpe_settings *s, struct err *err) {
    char text[8];
    if (s->unk_token) {
        b->unk = tok_bpe_find(b, s->unk_token, strlen(s->unk_token));
        if (b->unk == NONE)
            return err_set(err, "model.unk_token \"%s\" is not in the vocabulary", s->unk_token);
    }
    for (unsigned i = 0; i < 256; i++) {
        int n = snprintf(text, sizeof text, "<0x%02X>", i);
        b->byte_id[i] = tok_bpe_find(b, text, (size_t)n);
    }
    for (uint32_t c = 0; c < SMALL_CHARS; c++) b->small[c] = tok_bpe_find(b, text, utf8_put(c, text));
    free(b->prefix);
    free(b->suffix);
    b->prefix = xstrdup(s->prefix);
    b->suffix = xstrdup(s->suffix);
    b->fuse_unk = s->fuse_unk;
    b->byte_fallback = s->byte_fallback;
    b->ignore_merges = s->ignore_merges;
    return 0;
}

/* ---- merges: open addressing, linear probing, at most half full */
static struct merge *merge_slot(const struct tok_bpe *b, uint64_t pair) {
    size_t i = hash_u64(pair) & (b->merges.cap - 1);
    while (b->merges.slots[i].pair != NO_PAIR && b->merges.slots[i].pair != pair)
        i = (i + 1) & (b->merges.cap - 1);
    return &b->merges.slots[i];
}

static void grow_merges(struct tok_bpe *b) {
    struct merge *old = b->merges.slots;
    size_t cap = b->merges.cap;
    b->merges.cap = cap ? cap * 2 : 1024;
    b->merges.slots = xmalloc(b->merges.cap * sizeof *b->merges.slots);
    for (size_t i = 0; i < b->merges.cap; i++) b->merges.slots[i].pair = NO_PAIR;
    for (size_t i = 0; i < cap; i++)
        if (old[i].pair != NO_PAIR) *merge_slot(b, old[i].pair) = old[i];
    free(old);
}

static const struct merge *find_merge(const struct tok_bpe *b, uint32_t left, uint32_t right) {
    if (b->merges.cap == 0) return NULL;
    const struct merge *m = merge_slot(b, (uint64_t)left << 32 | right);
    return m->pair == NO_PAIR ? NULL : m;
}

int tok_bpe_add_merge(struct tok_bpe *b, const char *left, size_t nleft, const char *right, size_t nright,
                      struct err *err) {
    uint32_t l = tok_bpe_find(b, left, nleft), r = tok_bpe_find(b, right, nright);
    size_t skip = MIN(strlen(b->prefix), nright); /* skip the continuation prefix of the right half */
    strbuf_reset(&b->spelling);
    strbuf_add(&b->spelling, left, nleft);
    strbuf_add(&b->spelling, right + skip, nright - skip);
    uint32_t id = tok_bpe_find(b, b->spelling.buf, b->spelling.len);
    if (l == NONE || r == NONE || id == NONE)
        return err_set(err, "merge %zu (\"%.*s\" + \"%.*s\") names a token that is not in the vocabulary",
                       b->merges.n, (int)MIN(nleft, 40), left, (int)MIN(nright, 40), right);
    if (b->merges.n * 2 >= b->merges.cap) grow_merges(b);
    uint64_t pair = (uint64_t)l << 32 | r;
    *merge_slot(b, pair) = (struct merge){ pair, (uint32_t)b->merges.n++, id };
    return 0;
}

/* ---- a word as a linked list of symbols */
static void add_symbol(struct tok_bpe *b, uint32_t id) {
    uint32_t at = (uint32_t)b->symbols.n;
    if (at > 0) b->symbols.v[at - 1].next = at;
    vec_push(&b->symbols, ((struct symbol){ id, at > 0 ? at - 1 : NONE, NONE }));
}

static bool add_bytes(struct tok_bpe *b, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (b->byte_id[(unsigned char)text[i]] == NONE) return false;
    for (size_t i = 0; i < n; i++) add_symbol(b, b->byte_id[(unsigned char)text[i]]);
    return true;
}

/* Returns the id of one character; NONE if unknown. If the character gets the continuation prefix or the
 * suffix, sets *text and *n to the extended spelling. */
static uint32_t character_id(struct tok_bpe *b, bool first, bool last, const char **text, size_t *n) {
    bool marked = (!first && b->prefix[0]) || (last && b->suffix[0]);
    unsigned char c = (unsigned char)(*text)[0];
    if (!marked && *n == 1) return b->small[c];
    if (!marked && *n == 2 && c < 0xc0 + SMALL_CHARS / 64)
        return b->small[(c & 0x1fu) << 6 | ((unsigned char)(*text)[1] & 0x3f)];
    if (marked) {
        strbuf_reset(&b->spelling);
        if (!first) strbuf_addstr(&b->spelling, b->prefix);
        strbuf_add(&b->spelling, *text, *n);
        if (last) strbuf_addstr(&b->spelling, b->suffix);
        *text = b->spelling.buf;
        *n = b->spelling.len;
    }
    return tok_bpe_find(b, *text, *n);
}

/* Converts a word to symbols. The unknown token is not emitted at once, because the next character may be
 * unknown too (fuse_unk). Characters that byte fallback handles do not produce the unknown token. */
static void start_symbols(struct tok_bpe *b, const char *word, size_t n) {
    bool unknown = false;
    const char *end = word + n;
    b->symbols.n = 0;
    for (const char *p = word; p < end;) {
        const char *text = p;
        size_t len = utf8_step(p, end);
        bool first = p == word, last = p + len == end;
        p += len;
        uint32_t id = character_id(b, first, last, &text, &len);
        if (id != NONE) {
            if (unknown) add_symbol(b, b->unk);
            unknown = false;
            add_symbol(b, id);
        } else if (!(b->byte_fallback && add_bytes(b, text, len)) && b->unk != NONE) {
            if (unknown && !b->fuse_unk) add_symbol(b, b->unk);
            unknown = true;
        }
    }
    if (unknown) add_symbol(b, b->unk);
}

/* ---- a heap of candidates, the lowest rank at the root */
static void heap_push(struct tok_bpe *b, struct candidate c) {
    vec_push(&b->heap, c);
    struct candidate *v = b->heap.v;
    size_t i = b->heap.n - 1;
    for (; i > 0 && v[(i - 1) / 2].order > c.order; i = (i - 1) / 2) v[i] = v[(i - 1) / 2];
    v[i] = c;
}

static struct candidate heap_pop(struct tok_bpe *b) {
    struct candidate *v = b->heap.v, top = v[0], last = v[--b->heap.n];
    size_t n = b->heap.n, i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && v[child + 1].order < v[child].order) child++;
        if (v[child].order >= last.order) break;
        v[i] = v[child];
    }
    v[i] = last;
    return top;
}

static void consider(struct tok_bpe *b, uint32_t at) {
    uint32_t next = b->symbols.v[at].next;
    if (next == NONE) return;
    const struct merge *m = find_merge(b, b->symbols.v[at].id, b->symbols.v[next].id);
    if (m) heap_push(b, (struct candidate){ (uint64_t)m->rank << 32 | at, m->id });
}

/* Returns false if the candidate is stale: its left symbol was merged, or the pair at its place has
 * changed. */
static bool still_there(const struct tok_bpe *b, const struct candidate *c, uint32_t at) {
    const struct symbol *s = &b->symbols.v[at];
    if (s->id == NONE || s->next == NONE) return false;
    const struct merge *m = find_merge(b, s->id, b->symbols.v[s->next].id);
    return m && m->id == c->id;
}

static void merge_symbols(struct tok_bpe *b) {
    b->heap.n = 0;
    for (uint32_t i = 0; i < b->symbols.n; i++) consider(b, i);
    while (b->heap.n > 0) {
        struct candidate c = heap_pop(b);
        uint32_t at = (uint32_t)c.order;
        if (!still_there(b, &c, at)) continue;
        struct symbol *left = &b->symbols.v[at], *right = &b->symbols.v[left->next];
        left->id = c.id;
        left->next = right->next;
        right->id = NONE;
        if (left->next != NONE) b->symbols.v[left->next].prev = at;
        if (left->prev != NONE) consider(b, left->prev);
        consider(b, at);
    }
}

static void remember(struct tok_bpe *b, const char *word, size_t n, const struct token_ids *ids,
                     size_t from) {
    if (n > CACHE_WORD_BYTES || intern_count(b->cached) >= CACHE_WORDS) return;
    intern_id(b->cached, word, n);
    vec_push(&b->cached_at, ((struct span){ (uint32_t)b->cached_ids.n, (uint32_t)(ids->n - from) }));
    for (size_t i = from; i < ids->n; i++) vec_push(&b->cached_ids, ids->v[i]);
}

void tok_bpe_encode(struct tok_bpe *b, const char *word, size_t n, struct token_ids *ids) {
    uint32_t known = n <= CACHE_WORD_BYTES ? intern_find(b->cached, word, n) : INTERN_NONE;
    if (known != INTERN_NONE) {
        struct span s = b->cached_at.v[known];
        for (uint32_t i = 0; i < s.n; i++) vec_push(ids, b->cached_ids.v[s.start + i]);
        return;
    }
    size_t from = ids->n;
    uint32_t whole = b->ignore_merges ? tok_bpe_find(b, word, n) : NONE;
    if (whole != NONE) {
        vec_push(ids, whole);
    } else {
        start_symbols(b, word, n);
        merge_symbols(b);
        for (uint32_t i = b->symbols.n > 0 ? 0 : NONE; i != NONE; i = b->symbols.v[i].next)
            vec_push(ids, b->symbols.v[i].id);
    }
    remember(b, word, n, ids, from);
}
