/* SAM's ViT with DeepSeek-OCR's compressor: pixels [3, side, side] -> features [(side/64)^2, down2].
 *
 *     x = conv16(pixels) + positions                                  [g*g, width], g = side / 16
 *     block:  x += attention(LN(x))     in 14 x 14 windows, or global; with relative positions
 *             x += lin2(gelu(lin1(LN(x))))
 *     neck:   1x1 -> LN -> 3x3 -> LN    then two 3x3 of stride 2: g -> g/2 -> g/4 */
#ifndef ENGINE_OCR_SAM_H
#define ENGINE_OCR_SAM_H

#include <stdbool.h>

#include "engine/ops/ops.h"
#include "engine/weights/weights.h"
#include "llm/model.h"

#define SAM_SHARE 0.86 /* SAM's share of the progress of a view, by FLOPs; the rest is CLIP's */

struct sam_block {
    struct tensor *norm1_w, *norm1_b, *norm2_w, *norm2_b; /* [width] */
    struct linear qkv, proj, lin1, lin2;
    /* [2 side - 1, head_dim]; `side` is the side of the window, or of the table's grid for global blocks */
    struct tensor *rel_h, *rel_w;
    bool global;
};

struct sam {
    int width, heads, layers, patch, grid, window, neck_width, out_width;
    struct sam_block *block;
    struct conv patch_embed, neck0, neck2, net2, net3;
    struct tensor *positions; /* [grid, grid, width] */
    struct tensor *neck1_w, *neck1_b, *neck3_w, *neck3_b;
};

struct sam *sam_open(const struct llm_vision *c, struct weights *w);
void sam_close(struct sam *s);                 /* accepts NULL */
int sam_tokens(const struct sam *s, int side); /* tokens per side of the output: side / patch / 4 */
/* Views in host memory: planes[views, 3, side, side] or bytes[views, side, side, 3] (dsocr_scale). */
struct sam_pixels {
    const float *planes;
    const uint8_t *bytes; /* used if planes is NULL; the backend must have upload_bytes */
};
/* Views of the same size. */
struct sam_part {
    struct sam_pixels pixels;
    int views, side;
    struct view out; /* [views, tokens * tokens, out_width] */
};
enum { SAM_MOST_PARTS = 8 };
/* Encodes all parts. Layers that process each row on its own process the rows of all parts at once. */
void sam_forward(const struct sam *s, struct ops *o, const struct sam_part *parts, int n);

#endif
