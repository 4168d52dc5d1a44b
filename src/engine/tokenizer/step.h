/* Normalizers and pre-tokenizers as a few primitive steps over a list of pieces. ByteLevel, for example,
 * is a prefix, a split and the byte alphabet. load_steps.c translates a file to steps. */
#ifndef ENGINE_TOKENIZER_STEP_H
#define ENGINE_TOKENIZER_STEP_H

#include "engine/tokenizer/pieces.h"
#include "engine/tokenizer/regex.h"

enum tok_step_kind {
    TOK_STEP_PREPEND,        /* adds text before every piece */
    TOK_STEP_PREPEND_UNLESS, /* like TOK_STEP_PREPEND, unless the piece already begins with the text */
    TOK_STEP_PREPEND_FIRST,  /* like TOK_STEP_PREPEND_UNLESS, but only at the start of the input */
    TOK_STEP_REPLACE,        /* replaces matches by `text` */
    TOK_STEP_SPLIT,
    TOK_STEP_BYTES, /* converts every byte to its character in the GPT-2 alphabet */
    TOK_STEP_NFC,
    TOK_STEP_NFD,
    TOK_STEP_STRIP, /* removes white space at the ends */
};

enum tok_split { /* handling of the matches */
                 TOK_SPLIT_ISOLATED,
                 TOK_SPLIT_REMOVED,
                 TOK_SPLIT_MERGED_WITH_PREVIOUS,
                 TOK_SPLIT_MERGED_WITH_NEXT,
                 TOK_SPLIT_CONTIGUOUS, /* adjacent matches are joined, and so are adjacent gaps */
};

struct tok_step {
    enum tok_step_kind kind;
    struct tok_regex *re;
    char *text;
    size_t len;
    enum tok_split split;
    bool invert;      /* the gaps between matches count as the matches */
    bool left, right; /* TOK_STEP_STRIP: which ends to strip */
};

struct tok_steps {
    struct tok_step *v;
    size_t n, cap;
};
void tok_steps_free(struct tok_steps *s);
/* Runs all steps; `work` is a second list used as scratch. */
int tok_steps_run(const struct tok_steps *s, struct tok_pieces *pieces, struct tok_pieces *work,
                  struct err *err);

/* The GPT-2 alphabet. Bytes 33..126, 161..172 and 174..255 map to the same code point. The other bytes
 * map, in order, to U+0100 and up. */
uint32_t tok_byte_to_char(uint8_t byte);
int tok_char_to_byte(uint32_t c); /* -1: not in the alphabet */

#endif
