/* Text to token ids and back, according to Hugging Face's tokenizer.json: byte-level BPE (GPT-2, Llama 3,
 * Qwen, DeepSeek) and SentencePiece-style BPE with byte fallback (Llama 2, Mistral). An unsupported part
 * that would change the ids is an error.
 *     struct tokenizer *t = tokenizer_open("model-folder", &err);
 *     struct token_ids ids = { 0 };
 *     tokenizer_encode(t, text, strlen(text), TOKENIZER_PLAIN, &ids, &err);
 *     tokenizer_decode(t, ids.v, ids.n, TOKENIZER_KEEP_SPECIAL, &out);
 *     free(ids.v);
 *     tokenizer_close(t);
 * Encoding fills a cache of words: use a tokenizer from one thread. */
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

/* TOKENIZER_ADD_SPECIAL: with BOS etc. */
enum tokenizer_special { TOKENIZER_PLAIN, TOKENIZER_ADD_SPECIAL };
enum tokenizer_skip { TOKENIZER_KEEP_SPECIAL, TOKENIZER_SKIP_SPECIAL }; /* decode */

struct tokenizer;
/* Opens a tokenizer.json, or a folder that contains one. NULL: see err. */
struct tokenizer *tokenizer_open(const char *path, struct err *err);
struct tokenizer *tokenizer_open_text(const char *json, size_t n, const char *what, struct err *err);
/* The tokenizer of the embedded model, with 1024 ids: bytes, 752 merges and DeepSeek-OCR's markers. As in
 * DeepSeek-OCR, 0, 1 and 2 are BOS, EOS and padding. */
struct tokenizer *tokenizer_open_builtin(void);
/* The vocabulary of a GGUF file: byte-level BPE ("gpt2") or SentencePiece ("llama"). Unsupported kinds and
 * split patterns are errors. */
struct gguf;
bool tokenizer_in_gguf(const struct gguf *g); /* the file has a vocabulary */
struct tokenizer *tokenizer_open_gguf(const struct gguf *g, const char *what, struct err *err);
void tokenizer_close(struct tokenizer *t);

/* Appends the ids of text. Bytes that are not UTF-8 count as U+FFFD. Added tokens in the text are
 * recognised; TOKENIZER_ADD_SPECIAL also adds the ids of the file's post-processor. Returns -1 if a
 * regular expression fails, for example because it exceeds its limits. */
int tokenizer_encode(struct tokenizer *t, const char *text, size_t n, enum tokenizer_special special,
                     struct token_ids *ids, struct err *err);

/* Appends the text of ids, which is always valid UTF-8. Ids without a token are ignored. Only tests call
 * this function, as the reference for struct token_stream. */
void tokenizer_decode(const struct tokenizer *t, const uint32_t *ids, size_t n, enum tokenizer_skip skip,
                      struct strbuf *out);

uint32_t tokenizer_size(const struct tokenizer *t);                    /* largest id + 1 */
uint32_t tokenizer_find(const struct tokenizer *t, const char *token); /* TOKENIZER_NONE: not found */
/* Returns the token as written in the file, or NULL if no token has this id. For tests. */
const char *tokenizer_token(const struct tokenizer *t, uint32_t id);

/* State of decoding token by token, which appends whole characters only.
 *     struct token_stream s;
 *     token_stream_init(&s, t, TOKENIZER_KEEP_SPECIAL);
 *     token_stream_next(&s, id, &out);                  -- may append nothing, or more than one character
 *     token_stream_finish(&s, &out);                    -- an incomplete character becomes U+FFFD
 * The result equals tokenizer_decode() of all ids, except for byte fallback: in a sequence with an invalid
 * byte, only that byte becomes U+FFFD. Nothing must be freed. The tokenizer must stay open. */
struct token_stream {
    const struct tokenizer *t;
    enum tokenizer_skip skip;
    size_t tokens;         /* so far, without skipped ones */
    size_t strip_left;     /* leading characters still to drop */
    unsigned char held[4]; /* an incomplete character */
    size_t nheld;
};
void token_stream_init(struct token_stream *s, const struct tokenizer *t, enum tokenizer_skip skip);
void token_stream_next(struct token_stream *s, uint32_t id, struct strbuf *out);
void token_stream_finish(struct token_stream *s, struct strbuf *out);

#endif
