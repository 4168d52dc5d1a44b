/* A loaded model. Shared by engine.c, which loads it, and the files that serve requests: prompt.c, generate.c
 * and job_*.c. */
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
    struct decoder_steps *steps;       /* NULL: decoding calls one operator after the other */
    struct decoder_batch *batch_steps; /* of the last batch; NULL: none */
    struct vision *vision;             /* NULL: text only */
    struct tokenizer *tokenizer;
    /* why the vocabulary of the GGUF file is not supported; msg "": supported, or not a GGUF file */
    struct err no_tokenizer;
    char *path, *source;          /* "embedded", a folder or a .gguf file; "files" or "synthetic:SEED" */
    uint32_t bos;                 /* TOKENIZER_NONE: none */
    int batch;                    /* number of sequences for which device_logits and rows have space */
    struct tensor *device_logits; /* [batch][vocab] */
    struct tensor *rows;          /* [batch][hidden]: activations of a decoding step */
    float *logits;                /* [vocab]: one row on the host, for sampling */
    uint64_t requests;
    double slowdown; /* factor on the time of every pass ($INFERPROF_TEST_SLOWDOWN), for tests; 1: none */
};

#endif
