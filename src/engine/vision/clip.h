/* CLIP's ViT without its last norm. Its input is SAM's output (DeepSeek-OCR) or patches of pixels (LLaVA).
 * The class token is dropped at the end.
 *
 *     x = LN([class; features] + positions)                            [T, width], T = n*n + 1
 *     layer:  x += out(attention(LN(x)))        x += fc2(quick_gelu(fc1(LN(x)))) */
#ifndef ENGINE_VISION_CLIP_H
#define ENGINE_VISION_CLIP_H

#include <stdbool.h>

#include "engine/ops/ops.h"
#include "engine/weights/weights.h"
#include "llm/model.h"

struct clip_layer {
    struct tensor *norm1_w, *norm1_b, *norm2_w, *norm2_b; /* [width] */
    struct linear qkv[3]; /* one matrix for queries, keys and values, or one for each */
    struct linear out, fc1, fc2;
};

struct clip {
    int width, heads, layers, grid; /* grid: side of the position table */
    int matrices;                   /* number of matrices in a layer's qkv: 1 or 3 */
    float eps;
    struct tensor *class_token; /* [width] */
    struct tensor *positions;   /* [1 + grid*grid, width], row 0 for the class token */
    struct tensor *pre_norm_w, *pre_norm_b;
    struct clip_layer *layer;
};

/* Names of the tensors: "PREFIX.LAYERS.0.mlp.fc1.weight". */
struct clip_names {
    const char *prefix, *layers;
    bool fused; /* queries, keys and values are one matrix */
};
struct clip *clip_open(const struct llm_vision *c, const struct clip_names *names, struct weights *w);
void clip_close(struct clip *c); /* accepts NULL */
/* Views of the same size. */
struct clip_part {
    int views, n; /* n x n features each */
};
/* features[views of all parts, n*n, width] -> out of the same shape: the output of the last layer without
 * the class tokens. `share` is the share of this call in the progress of a view. */
void clip_forward(const struct clip *c, struct ops *o, const struct clip_part *parts, int nparts,
                  struct view features, struct view out, double share);

#endif
