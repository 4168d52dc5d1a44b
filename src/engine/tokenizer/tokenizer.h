/* Text to token ids and back, as Hugging Face's tokenizer.json describes it: byte-level BPE (GPT-2, Llama 3,
 * Qwen, DeepSeek) and SentencePiece-style BPE with byte fallback (Llama 2, Mistral). Anything in the file
 * that would change the ids and is not known here is refused by name.
 *     struct tokenizer *t = tokenizer_open("model-folder", &err);
 *     struct token_ids ids = { 0 };
 *     tokenizer_encode(t, text, strlen(text), TOKENIZER_PLAIN, &ids, &err);
 *     tokenizer_decode(t, ids.v, ids.n, TOKENIZER_KEEP_SPECIAL, &out);
 *     free(ids.v), tokenizer_close(t);
 * Encoding fills a cache of words: one thread a tokenizer. */
#ifndef ENGINE_TOKENIZER_TOKENIZER_H
#define ENGINE_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"

#define TOKENIZER_NONE UINT32_MAX

struct token_ids { /* a base/vec.h array; free(ids.v) */
    uint32_t *v;
    size_t n, cap;
};

enum tokenizer_special { TOKENIZER_PLAIN, TOKENIZER_ADD_SPECIAL };      /* encode: BOS and the like, or not */
enum tokenizer_skip { TOKENIZER_KEEP_SPECIAL, TOKENIZER_SKIP_SPECIAL }; /* decode */

struct tokenizer;
/* A tokenizer.json, or a folder that holds one. NULL: see err. */
struct tokenizer *tokenizer_open(const char *path, struct err *err);
struct tokenizer *tokenizer_open_text(const char *json, size_t n, const char *what, struct err *err);
/* The tokenizer of the embedded model: bytes, 752 merges, DeepSeek-OCR's markers; 1024 ids, of which 0, 1
 * and 2 are BOS, EOS and padding, as there. */
struct tokenizer *tokenizer_open_builtin(void);
void tokenizer_close(struct tokenizer *t);

/* Appends the ids of text. Bytes that are not UTF-8 count as U+FFFD. Special tokens written in the text are
 * found; TOKENIZER_ADD_SPECIAL also adds what the file's post-processor adds around it. -1: see err (a regex
 * that ran out of its limits; nothing else). */
int tokenizer_encode(struct tokenizer *t, const char *text, size_t n, enum tokenizer_special special,
                     struct token_ids *ids, struct err *err);

/* Appends the text of ids: always UTF-8; ids without a token give nothing. */
void tokenizer_decode(const struct tokenizer *t, const uint32_t *ids, size_t n, enum tokenizer_skip skip,
                      struct strbuf *out);

uint32_t tokenizer_size(const struct tokenizer *t);                    /* largest id + 1 */
uint32_t tokenizer_find(const struct tokenizer *t, const char *token); /* TOKENIZER_NONE: not there */
const char *tokenizer_token(const struct tokenizer *t, uint32_t id);   /* as the file spells it; NULL */
bool tokenizer_is_special(const struct tokenizer *t, uint32_t id);

/* Decoding token by token: what is appended is always whole characters.
 *     struct token_stream s;
 *     token_stream_init(&s, t, TOKENIZER_KEEP_SPECIAL);
 *     token_stream_next(&s, id, &out);                  -- may append nothing, or more than one character
 *     token_stream_finish(&s, &out);                    -- what was cut off becomes U+FFFD
 * Equal to tokenizer_decode() of all the ids, save that with byte fallback a run of bytes with a bad one in
 * it loses only that one. Nothing to free; the tokenizer must outlive it. */
struct token_stream {
    const struct tokenizer *t;
    enum tokenizer_skip skip;
    size_t tokens;         /* fed so far, skipped ones not counted */
    size_t strip_left;     /* leading characters still to drop */
    unsigned char held[4]; /* the beginning of a character */
    size_t nheld;
};
void token_stream_init(struct token_stream *s, const struct tokenizer *t, enum tokenizer_skip skip);
void token_stream_next(struct token_stream *s, uint32_t id, struct strbuf *out);
void token_stream_finish(struct token_stream *s, struct strbuf *out);

#endif
