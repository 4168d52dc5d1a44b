/* DeepSeek-OCR's input: an image is converted to one global view and optional tiles. A prompt is converted to
 * ids with a sequence of image tokens per image. dsocr_layout() describes the embeddings of that sequence row
 * by row.
 *     struct dsocr_plan plan;                       -- sizes only, no pixels
 *     dsocr_plan_make(&settings, width, height, &plan);
 *     dsocr_views_make(&plan, &image, NULL, &views, &err); -- floats, normalised to -1..1 */
#ifndef ENGINE_OCR_PREPROCESS_H
#define ENGINE_OCR_PREPROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/image/image.h"
#include "engine/tokenizer/tokenizer.h"

/* Sides are in pixels and multiples of 64 (patch 16, then 4 x 4 patches per token). */
struct dsocr_settings {
    int base_side;  /* side of the global view if cropping */
    int image_side; /* side of the only view if not cropping; otherwise the side of a tile */
    bool crop;
    int stretch_side; /* without cropping, a view up to this side is stretched, and a larger view is padded */
    int min_tiles, max_tiles;
};

/* Modes: tiny, small, base, large, gundam (the default). NULL: no such mode, err lists the modes. */
const struct dsocr_settings *dsocr_mode(const char *name, struct err *err);

/* Replaces the sizes of a mode; 0 keeps a size. crop: 1 on, -1 off, 0 as in the mode. Fails if a side is
 * not a multiple of 64 from 64 to 4096. */
int dsocr_set_sizes(struct dsocr_settings *s, int base_side, int image_side, int crop, struct err *err);

struct dsocr_plan {
    int width, height; /* of the image */
    int view_side;     /* global view */
    bool stretch;      /* true: the global view is stretched; false: padded */
    int tile_side;
    int grid_w, grid_h; /* tiles across and down; 0, 0: none */
    int view_tokens;    /* tokens along a side of the global view: view_side / 64 */
    int tile_tokens;
    int image_tokens; /* rows in the sequence, including newlines and separator */
};
void dsocr_plan_make(const struct dsocr_settings *s, int width, int height, struct dsocr_plan *plan);
void dsocr_grid(const struct dsocr_settings *s, int width, int height, int *grid_w, int *grid_h);

/* Memory of views. dsocr_views_make() uses malloc() and floats if its argument is NULL. */
struct dsocr_memory {
    void *(*alloc)(void *context, size_t bytes); /* NULL: not enough memory */
    void (*free)(void *context, void *p);
    void *context;
    bool bytes; /* views are bytes instead of floats */
};

struct dsocr_views {
    struct dsocr_memory memory;
    float *global; /* [3][view_side][view_side] */
    float *tiles;  /* [grid_h * grid_w][3][tile_side][tile_side], row by row of the grid; NULL: none */
    /* The same pixels as bytes, [view_side][view_side][3] and [grid_h * grid_w][tile_side][tile_side][3];
     * dsocr_scale() converts a byte to its float. Only one of the two forms is set: floats or bytes. */
    uint8_t *global_bytes, *tiles_bytes;
    bool blank; /* see dsocr_drop_blank() */
};
/* Writes the float in -1..1 for each of the 256 byte values. Calculates in torchvision's order: divide by
 * 255, subtract 0.5, divide by 0.5. */
void dsocr_scale(float scale[256]);
/* Fails if the image cannot be resized or memory is short; `out` is then empty. */
int dsocr_views_make(const struct dsocr_plan *plan, const struct image *im, const struct dsocr_memory *memory,
                     struct dsocr_views *out, struct err *err);
/* The original code treats views whose values sum to exactly 0 (half black and half white, for example) as
 * absent. This function removes all tiles from the plan if the sum over all tiles is 0, and sets `blank` if
 * the sum of the global view is 0; such an image is skipped. */
void dsocr_drop_blank(struct dsocr_plan *plan, struct dsocr_views *v);
void dsocr_views_free(struct dsocr_views *v);

/* Where the embedding of one image token comes from: a tile, the global view, or a learned vector (newline,
 * separator). */
enum dsocr_row_kind { DSOCR_ROW_TILE, DSOCR_ROW_GLOBAL, DSOCR_ROW_NEWLINE, DSOCR_ROW_SEPARATOR };
struct dsocr_row {
    enum dsocr_row_kind kind;
    int tile;  /* index of the tile, for DSOCR_ROW_TILE */
    int token; /* index of the token in that view, row-major */
};
/* Writes the source of each image token of the plan: tiles first, then the global view, then the separator.
 * `rows` has plan->image_tokens entries. */
void dsocr_layout(const struct dsocr_plan *plan, struct dsocr_row *rows);

/* A prompt and the plans of its images. */
struct dsocr_prompt {
    const char *text;
    size_t len;
    uint32_t bos_id, image_id;
    const struct dsocr_plan *plans;
    size_t nplans;
};
/* Converts a prompt to ids: bos_id, then the text, in which each "<image>" becomes plans[i].image_tokens
 * copies of image_id. White space at both ends is dropped. Appends to ids, and appends the position of the
 * first token of each image to `starts` (may be NULL). The prompt must contain one "<image>" per image. */
int dsocr_prompt_ids(struct tokenizer *t, const struct dsocr_prompt *p, struct token_ids *ids,
                     struct token_ids *starts, struct err *err);

#endif
