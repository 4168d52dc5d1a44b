/* Qwen2.5-VL's encoder (vision.h): images keep their shape. Patches attend within their window, or in some
 * layers to the whole image. Each square of merge x merge patches becomes one row.
 *
 *     x = patches(pixels)                                         [rows of patches, width]
 *     layer:  x += proj(attention(rms(x)))       queries and keys rotate by row and column of the patch
 *             x += down(silu(gate(rms(x))) up(rms(x)))
 *     out = fc2(gelu(fc1(rms(x) of merge * merge patches)))
 * Patches are ordered by window, and within a window by merged square. */
#ifndef ENGINE_VISION_QWEN_VL_H
#define ENGINE_VISION_QWEN_VL_H

#include "engine/vision/vision.h"

extern const struct vision_encoder qwen_vl_encoder;

/* The patches of an image, ordered row by row of merged squares, as transformers' processor writes them. */
struct qwen_patches {
    int grid_height, grid_width; /* size in patches; both are multiples of the side of a merged square */
    float *pixels;               /* [grid_height * grid_width][3][frames][patch][patch] */
};
int qwen_patches_make(const struct llm_model *m, const struct image *im, struct qwen_patches *out,
                      struct err *err);

/* Writes the order of merged squares by window to order[rows * cols], and the number of squares of each
 * window to sizes[rows * cols]; returns the number of windows. Windows at the edge are smaller. */
int qwen_window_order(int rows, int cols, int window, int *order, int *sizes);

#endif
