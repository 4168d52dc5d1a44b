#include "engine/tokenizer/pieces.h"

#include <stdlib.h>

#include "base/vec.h"

void tok_pieces_init(struct tok_pieces *p) { *p = (struct tok_pieces){ .text = STRBUF_INIT }; }

void tok_pieces_free(struct tok_pieces *p) {
    strbuf_free(&p->text);
    free(p->v);
    *p = (struct tok_pieces){ .text = STRBUF_INIT };
}

void tok_pieces_clear(struct tok_pieces *p) {
    strbuf_reset(&p->text);
    p->n = 0;
}

void tok_pieces_add(struct tok_pieces *p, const char *text, size_t n, bool first) {
    if (n == 0) return;
    vec_push(p, ((struct tok_piece){ p->text.len, n, TOKENIZER_NONE, first }));
    strbuf_add(&p->text, text, n);
}

void tok_pieces_add_token(struct tok_pieces *p, uint32_t id) {
    vec_push(p, ((struct tok_piece){ p->text.len, 0, id, false }));
}
