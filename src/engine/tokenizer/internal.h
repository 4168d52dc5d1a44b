/* The parts of a tokenizer. Filled by load.c, load_steps.c and gguf.c; used by tokenizer.c and decode.c. */
#ifndef ENGINE_TOKENIZER_INTERNAL_H
#define ENGINE_TOKENIZER_INTERNAL_H

#include "engine/tokenizer/added.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/step.h"
#include "engine/tokenizer/tokenizer.h"

enum tok_decoder_kind {
    TOK_DECODER_NONE,      /* tokens joined by spaces */
    TOK_DECODER_BYTES,     /* converts the GPT-2 alphabet back to bytes */
    TOK_DECODER_TEXT,      /* applies replacements and optional byte fallback */
    TOK_DECODER_METASPACE, /* the marker becomes a space; in the first token, see keep_first */
};

struct tok_decoder {
    enum tok_decoder_kind kind;
    struct tok_replace {
        char *from, *to;
        size_t nfrom, nto;
    } * replace;
    size_t nreplace, replace_cap;
    bool byte_fallback; /* tokens such as <0xE4> are bytes */
    bool keep_first;    /* TOK_DECODER_METASPACE: do not drop the marker in the first token */
    char strip[5];      /* this character is removed from the start, at most strip_count times */
    size_t strip_count;
};

struct tokenizer {
    struct tok_bpe *bpe;
    struct tok_added_list added;
    struct token_ids added_at;      /* by id: index in `added` + 1; 0: not an added token */
    struct tok_matcher raw, cooked; /* added tokens, matched before (raw) and after (cooked) the normalizer */
    struct tok_steps normalizer, pre_tokenizer;
    struct token_ids prefix, suffix; /* ids that the post-processor adds */
    struct tok_decoder decoder;
    struct tok_pieces pieces, work;
};

/* Reads the parsed file into `t`, which must come from tok_new(). The caller closes `t`, also on failure. */
struct json_t;
int tok_load(struct tokenizer *t, struct json_t *root, struct err *err);
int tok_load_steps(struct json_t *node, const char *where, struct tok_steps *out, struct err *err);
/* Appends an added token. If the vocabulary contains its text, the id in the vocabulary takes precedence.
 * Call tok_index_added() after the last added token. */
void tok_add_added(struct tokenizer *t, struct tok_added a, const char *text, size_t n);
int tok_index_added(struct tokenizer *t, struct err *err);
struct tokenizer *tok_new(void);                /* empty; tokenizer_close() frees it */
const char *tok_json_type(struct json_t *node); /* returns the node's "type"; "": none */
int tok_load_decoder(struct json_t *node, struct tok_decoder *out, struct err *err);

const struct tok_added *tok_find_added(const struct tokenizer *t, uint32_t id); /* NULL: not an added token */

#endif
