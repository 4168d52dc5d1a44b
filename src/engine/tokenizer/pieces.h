/* Text being tokenised: a list of pieces, each either text or an added token. */
#ifndef ENGINE_TOKENIZER_PIECES_H
#define ENGINE_TOKENIZER_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "engine/tokenizer/tokenizer.h"

struct tok_piece {
    size_t start, len; /* position in the list's text */
    uint32_t id;       /* id of an added token; TOKENIZER_NONE: text */
    bool first;        /* the piece is at the start of the input */
};

struct tok_pieces { /* call tok_pieces_init() first */
    struct strbuf text;
    struct tok_piece *v;
    size_t n, cap;
};

static inline const char *tok_piece_text(const struct tok_pieces *p, size_t i) {
    return p->text.buf + p->v[i].start;
}
void tok_pieces_init(struct tok_pieces *p);
void tok_pieces_free(struct tok_pieces *p);
void tok_pieces_clear(struct tok_pieces *p);
void tok_pieces_add(struct tok_pieces *p, const char *text, size_t n, bool first); /* ignores empty text */
void tok_pieces_add_token(struct tok_pieces *p, uint32_t id);

#endif
