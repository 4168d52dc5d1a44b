/* The struct that is shared by engine.c (loading), prompt.c and generate.c (requests). */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include "engine/decoder/decoder.h"
#include "engine/compute/threads.h"
#include "engine/engine.h"
#include "engine/encoders.h"
#include "llm/model.h"

struct engine {
    struct llm_model *model;
    struct weights *weights;
    struct threads *threads;
    struct engine_device device;
    struct ops *ops;
    struct decoder *decoder;
    struct decoder_steps *steps; /* NULL: decoding calls the operators */
    struct vision *vision;       /* NULL: text only */
    struct tokenizer *tokenizer;
    /* why the vocabulary of a GGUF file is not supported; msg "": it is supported */
    struct err no_tokenizer;
    char *path, *source;          /* "embedded" or the folder; "files" or "synthetic:0" */
    uint32_t bos;                 /* TOKENIZER_NONE: none */
    int batch;                    /* number of sequences for which the fields below have space */
    struct tensor *device_logits; /* [batch][vocab] */
    struct tensor *rows;          /* [batch][hidden]: the tokens being decoded */
    float *logits;                /* [vocab]: one row on the host, for sampling */
    uint64_t requests;
    double slowdown; /* factor on the time of every pass, for tests: $INFERPROF_TEST_SLOWDOWN; 1: none */
};

#endif
