/* DeepSeek-OCR's encoder: views -> SAM -> CLIP -> projector -> rows of the image in the sequence. The time
 * of each stage is summed over the views. dsocr_encoder implements vision.h. */
#ifndef ENGINE_OCR_ENCODER_H
#define ENGINE_OCR_ENCODER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/ocr/preprocess.h"
#include "engine/ocr/sam.h"
#include "engine/ops/ops.h"
#include "engine/vision/clip.h"
#include "engine/vision/vision.h"
#include "engine/weights/weights.h"

struct dsocr {
    struct sam *sam;
    struct clip *clip;
    struct linear projector;            /* [hidden, clip + sam] */
    struct tensor *newline, *separator; /* [hidden] */
    int hidden;
};

enum dsocr_stage { DSOCR_SAM, DSOCR_CLIP, DSOCR_PROJECTOR };

/* Views of the same size, in host memory. */
struct dsocr_part {
    struct sam_pixels pixels;
    int views, side;
};
enum { DSOCR_MOST_PARTS = 8 };
/* Encodes the views of up to DSOCR_MOST_PARTS groups to out[views of all groups, (side/64)^2, hidden]. */
void dsocr_encode_views(const struct dsocr *v, struct ops *o, const struct dsocr_part *g, int groups,
                        struct view out, struct vision_times *times);
/* Encodes all views of an image and writes its rows in their order in the sequence: rows[plan->image_tokens,
 * hidden]. The rows of a blank image are not changed; they contain the embeddings of the image token.
 * Returns false if progress() returned false; the rows are then incomplete. */
bool dsocr_encode_image(const struct dsocr *v, struct ops *o, const struct dsocr_plan *plan,
                        const struct dsocr_views *views, struct view rows, struct vision_times *times,
                        vision_progress *progress, void *context);

extern const struct vision_encoder dsocr_encoder;

#endif
