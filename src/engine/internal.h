/* What engine.c (loading) and generate.c (answering) share. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include "engine/decoder/decoder.h"
#include "engine/engine.h"
#include "engine/ocr/vision.h"
#include "llm/model.h"

struct engine {
    struct llm_model *model;
    struct weights *weights;
    struct ops *ops;
    struct decoder *decoder;
    struct vision *vision; /* NULL: text only */
    struct tokenizer *tokenizer;
    char *path, *source;            /* "embedded" or the folder; "files" or "synthetic:0" */
    uint32_t bos, eos, image_token; /* TOKENIZER_NONE: none */
    float *logits;                  /* [vocab] */
    float *row;                     /* [hidden]: the token being decoded */
    uint64_t requests;
};

#endif
