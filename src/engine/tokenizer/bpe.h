/* Byte-pair encoding of one word: converts characters to ids, then merges the adjacent pair with the
 * lowest rank until no pair has a merge. If ranks are equal, the leftmost pair is merged first. Results
 * are cached by word. */
#ifndef ENGINE_TOKENIZER_BPE_H
#define ENGINE_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/tokenizer/tokenizer.h"

#define TOK_MAX_ID (1u << 24) /* larger ids are rejected, because tables are indexed by id */

struct tok_bpe;
struct tok_bpe *tok_bpe_open(void);
void tok_bpe_close(struct tok_bpe *b);

/* Call order: tokens, then settings, then merges by increasing rank. */
int tok_bpe_add_token(struct tok_bpe *b, const char *text, size_t n, uint32_t id, struct err *err);
struct tok_bpe_settings {
    const char *unk_token; /* NULL: unknown characters are dropped */
    const char *prefix;    /* prefix of pieces that continue a word; "": none */
    const char *suffix;    /* suffix of the last piece of a word */
    bool fuse_unk;         /* consecutive unknown characters become one token */
    bool byte_fallback;    /* unknown characters become their bytes, as <0xE4> */
    bool ignore_merges;    /* a word that is a token is not split */
};
int tok_bpe_set(struct tok_bpe *b, const struct tok_bpe_settings *s, struct err *err);
int tok_bpe_add_merge(struct tok_bpe *b, const char *left, size_t nleft, const char *right, size_t nright,
                      struct err *err);

void tok_bpe_encode(struct tok_bpe *b, const char *word, size_t n, struct token_ids *ids); /* appends */

uint32_t tok_bpe_find(const struct tok_bpe *b, const char *text, size_t n); /* TOKENIZER_NONE: not found */
const char *tok_bpe_text(const struct tok_bpe *b, uint32_t id, size_t *n);  /* NULL: no such id */
uint32_t tok_bpe_size(const struct tok_bpe *b);                             /* largest id + 1 */

#endif
