/* What a model's own preprocessing makes of a picture: how many views, how many tokens, and how much each
 * image operator then has to do. No pixels are touched. */
#ifndef LLM_IMAGE_H
#define LLM_IMAGE_H

#include <stdint.h>

#include "base/err.h"
#include "llm/model.h"

#define LLM_VIEWS_MAX 2

/* Rows and pairs of a pass, summed over views, images and sequences: what turns operators into costs. */
struct llm_counts {
    double rows[LLM_ROWS_N], pairs[LLM_PAIRS_N];
};

struct llm_view {
    uint64_t width, height, count; /* pixels; how many views of this size */
};

struct llm_image_plan {
    struct llm_view views[LLM_VIEWS_MAX];
    int nviews;
    uint64_t grid_width, grid_height; /* of tiles; 0: none */
    uint64_t tokens;                  /* in the prompt, separators included */
    struct llm_counts counts;
};

struct llm_image_opts {
    const char *mode;   /* DeepSeek-OCR: tiny, small, base, large, gundam (NULL) */
    uint64_t max_tiles; /* 0: the model's own */
};

int llm_image_plan(const struct llm_model *m, uint64_t width, uint64_t height,
                   const struct llm_image_opts *opts, struct llm_image_plan *plan, struct err *err);

/* The grid of tiles (DeepSeek-OCR: min 2; internvl: min 1) nearest in shape to the picture. */
void llm_image_grid(uint64_t width, uint64_t height, uint64_t tile, uint64_t min, uint64_t max,
                    uint64_t *grid_width, uint64_t *grid_height);

#endif
