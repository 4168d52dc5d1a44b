/* The prompt of a sequence: its ids and, for models with vision, the views of its images.
 *     struct prompt p;
 *     if (prompt_make(&p, engine, request, 0, &err) < 0) ...
 *     prompt_free(&p);                                          -- also if prompt_make() failed */
#ifndef ENGINE_PROMPT_H
#define ENGINE_PROMPT_H

#include "engine/engine.h"
#include "engine/ocr/preprocess.h"

struct prompt {
    struct engine *e;
    const struct engine_request *r;
    struct token_ids ids;
    struct token_ids starts; /* first token of each image */
    struct dsocr_plan *plans;
    struct dsocr_views *views;
};

int prompt_make(struct prompt *p, struct engine *e, const struct engine_request *r, size_t sequence,
                struct err *err);
void prompt_free(struct prompt *p);

#endif
