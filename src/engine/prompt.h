/* The prompt of a sequence: its ids and, for models with vision, its images.
 *     struct prompt p;
 *     if (prompt_make(&p, engine, request, 0, &err) < 0) ...
 *     prompt_free(&p);                                          -- also if prompt_make() failed */
#ifndef ENGINE_PROMPT_H
#define ENGINE_PROMPT_H

#include "engine/engine.h"
#include "engine/decoder/rope.h"
#include "engine/vision/vision.h"

struct prompt {
    struct engine *e;
    const struct engine_request *r;
    struct token_ids ids;
    struct token_ids starts;        /* index of the first token of each image */
    struct vision_prepared *images; /* [r->nimages] */
    /* rotary positions; v NULL: the position of a token is its index */
    struct rope_places places;
};

/* Returns the positions for a decoder pass; NULL: the position of a token is its index. */
static inline const struct rope_places *prompt_places(const struct prompt *p) {
    return p->places.v ? &p->places : NULL;
}

int prompt_make(struct prompt *p, struct engine *e, const struct engine_request *r, size_t sequence,
                struct err *err);
void prompt_free(struct prompt *p);

#endif
