/* Result of a model's image preprocessing, computed from the image size only: the number of views and tokens,
 * and the row counts of the image operators. Does not read pixels. */
#ifndef LLM_IMAGE_H
#define LLM_IMAGE_H

#include <stdint.h>

#include "base/err.h"
#include "llm/model.h"

#define LLM_VIEWS_MAX 2

/* Rows and query-key pairs of a pass, summed over views, images and sequences. */
struct llm_counts {
    double rows[LLM_ROWS_N], pairs[LLM_PAIRS_N];
};

struct llm_view {
    uint64_t width, height, count; /* pixels; number of views of this size */
};

struct llm_image_plan {
    struct llm_view views[LLM_VIEWS_MAX];
    int nviews;
    uint64_t grid_width, grid_height; /* in tiles; 0: no tiles */
    uint64_t tokens;                  /* tokens in the prompt, including separators */
    struct llm_counts counts;
};

enum llm_crop { LLM_CROP_MODE, LLM_CROP_ON, LLM_CROP_OFF }; /* LLM_CROP_MODE: the mode decides */
struct llm_image_opts {
    const char *mode;   /* DeepSeek-OCR: tiny, small, base, large, gundam (NULL: gundam) */
    uint64_t max_tiles; /* 0: default of the model */
    /* DeepSeek-OCR; 0: default of the mode. base_size: side of the global view if cropping is on. image_size:
     * side of a tile; without cropping, side of the only view. */
    uint64_t base_size, image_size;
    enum llm_crop crop;
};

int llm_image_plan(const struct llm_model *m, uint64_t width, uint64_t height,
                   const struct llm_image_opts *opts, struct llm_image_plan *plan, struct err *err);

/* Finds the grid of min to max tiles whose aspect ratio is nearest to that of the image. `min` is 2 for
 * DeepSeek-OCR and 1 for internvl. */
void llm_image_grid(uint64_t width, uint64_t height, uint64_t tile, uint64_t min, uint64_t max,
                    uint64_t *grid_width, uint64_t *grid_height);

#endif
