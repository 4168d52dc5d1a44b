/* The interface of image encoders: an image becomes rows of the prompt. Each family of vision models fills
 * one struct vision_encoder; src/engine/encoders.c lists them.
 *     struct vision *v = vision_open(model, hidden, weights, &err);         -- encoders.h
 *     v->encoder->prepare(v->state, ops, &settings, &image, &prepared, &err);
 *     v->encoder->prompt(v, tokenizer, &prompt, &ids, &starts, &err);
 *     v->encoder->encode(v->state, ops, &prepared, rows, &times, progress, context);
 *     vision_prepared_free(&prepared);
 *     vision_close(v); */
#ifndef ENGINE_VISION_VISION_H
#define ENGINE_VISION_VISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/image/image.h"
#include "engine/ops/ops.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/weights.h"
#include "llm/model.h"

#define VISION_MARK "<image>" /* stands for an image in the text of a prompt */
enum { VISION_STAGES_MAX = 4 };

/* The image options of a request, as in struct engine_request. Only DeepSeek-OCR uses them. */
struct vision_settings {
    const char *mode; /* NULL: gundam */
    int max_tiles, base_size, image_size, crop;
};

/* An image that is ready for the encoder. */
struct vision_prepared {
    int tokens; /* rows in the prompt */
    /* rows and columns of tokens, for positions in three dimensions; 0: the position of a token is its
     * index */
    int grid_height, grid_width;
    void *data; /* owned; the encoder's own struct */
    void (*free)(void *data);
};

/* A prompt with one mark "<image>" per image. vision_prompt_whole() also accepts a prompt without marks. */
struct vision_prompt {
    const char *text;
    size_t len;
    uint32_t bos_id; /* TOKENIZER_NONE: none */
    const struct vision_prepared *images;
    size_t nimages;
};

/* Time of each stage of the encoder, summed over images and views. vision_times_take() completes `ns`. */
struct vision_times {
    uint64_t ns[VISION_STAGES_MAX];
    struct {
        struct vision_span {
            int stage, from, to; /* from, to: marks of the device */
        } * v;
        size_t n, cap;
    } spans;
};

/* Called before each view: `done` of `total` pixels are processed, the next view has `next` pixels. Return
 * false to stop. */
typedef bool vision_progress(void *context, uint64_t done, uint64_t next, uint64_t total);

struct vision;
struct vision_encoder {
    const char *family;                    /* llm_model.family */
    const char *stages[VISION_STAGES_MAX]; /* recorded stages in their order; NULL after the last one */
    const char *usual_prompt;              /* prompt of a request that has images but no prompt */
    int no_repeat_ngram;                   /* default of the n-gram rule; 0: off */
    bool keep_special;                     /* the text of the answer contains special tokens */
    bool any_device;                       /* false: only backends with OPS_EXTRA_TOWERS run it */

    void *(*open)(const struct llm_model *m, int hidden, struct weights *w, struct err *err);
    void (*close)(void *state);
    int (*prepare)(const void *state, struct ops *o, const struct vision_settings *s, const struct image *im,
                   struct vision_prepared *out, struct err *err);
    /* Appends the ids of the prompt, with p->images[i].tokens image tokens per image, to `ids`, and the
     * position of each image's first row to `starts`. */
    int (*prompt)(const struct vision *v, struct tokenizer *t, const struct vision_prompt *p,
                  struct token_ids *ids, struct token_ids *starts, struct err *err);
    /* Writes rows[tokens, hidden]. Returns false if progress() returned false. */
    bool (*encode)(const void *state, struct ops *o, const struct vision_prepared *p, struct view rows,
                   struct vision_times *times, vision_progress *progress, void *context);
};

struct vision {
    const struct vision_encoder *encoder;
    const struct llm_model *model; /* borrowed */
    void *state;                   /* the struct that encoder->open() returned */
};

void vision_prepared_free(struct vision_prepared *p);

/* Starts and ends a stage of the encoder, and adds its time to `t`. A device that can mark times measures
 * the stage itself, unless stages are recorded; otherwise the end of a stage waits for the device. */
struct vision_stage {
    int stage;
    uint64_t start_ns;
    int mark; /* -1: none */
};
struct vision_stage vision_stage_begin(struct ops *o, int stage, const char *name);
void vision_stage_end(struct ops *o, struct vision_stage s, struct vision_times *t);
/* Waits for the device and adds the times that it measured to t->ns. */
void vision_times_take(struct ops *o, struct vision_times *t);

/* ---- parts that several families share */

/* The prompt rule of transformers' processors: the text is encoded as a whole, and each image token is
 * repeated for all rows of its image. If the text has no image mark, one per image is added at its start. */
int vision_prompt_whole(const struct vision *v, struct tokenizer *t, const struct vision_prompt *p,
                        struct token_ids *ids, struct token_ids *starts, struct err *err);
/* Appends ids[n] to `out`, with the i-th occurrence of `id` replaced by images[i].tokens copies of image_id,
 * and the position of each image's first token to `starts`. Fails if `id` does not occur nimages times. */
int vision_expand_ids(const uint32_t *ids, size_t n, uint32_t id, uint32_t image_id,
                      const struct vision_prepared *images, size_t nimages, struct token_ids *out,
                      struct token_ids *starts, struct err *err);
/* Writes the float for each byte value of every channel: (value / 255 - mean) / std. */
void vision_scale(const struct llm_vision *v, float scale[3][256]);

#endif
