/* CLIP's ViT as used in DeepSeek-OCR: its patches are SAM's output, its last layer has no norm, and the class
 * token is dropped at the end.
 *
 *     x = LN([class; features] + positions)                            [T, width], T = n*n + 1
 *     layer:  x += out(attention(LN(x)))        x += fc2(quick_gelu(fc1(LN(x)))) */
#ifndef ENGINE_OCR_CLIP_H
#define ENGINE_OCR_CLIP_H

#include "engine/ops/ops.h"
#include "engine/weights/weights.h"
#include "llm/model.h"

struct clip_layer {
    struct tensor *norm1_w, *norm1_b, *norm2_w, *norm2_b; /* [width] */
    struct linear qkv, out, fc1, fc2;
};

struct clip {
    int width, heads, layers, grid; /* grid: side of the position table */
    struct tensor *class_token;     /* [width] */
    struct tensor *positions;       /* [1 + grid*grid, width], row 0 for the class token */
    struct tensor *pre_norm_w, *pre_norm_b;
    struct clip_layer *layer;
};

struct clip *clip_open(const struct llm_vision *c, struct weights *w);
void clip_close(struct clip *c); /* NULL: nothing */
/* Views of the same size. */
struct clip_part {
    int views, n; /* n x n features each */
};
/* features[views of all parts, n*n, width] -> out of the same shape. */
void clip_forward(const struct clip *c, struct ops *o, const struct clip_part *parts, int nparts,
                  struct view features, struct view out);

#endif
