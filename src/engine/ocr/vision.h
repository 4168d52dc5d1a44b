/* DeepSeek-OCR's encoder: views -> SAM -> CLIP -> projector -> the rows of the image in the sequence. The
 * time of each of the three stages is summed over the views. */
#ifndef ENGINE_OCR_VISION_H
#define ENGINE_OCR_VISION_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/ocr/clip.h"
#include "engine/ocr/preprocess.h"
#include "engine/ops/ops.h"
#include "engine/ocr/sam.h"
#include "engine/weights/weights.h"

struct vision {
    struct sam *sam;
    struct clip *clip;
    struct linear projector;            /* [hidden, clip + sam] */
    struct tensor *newline, *separator; /* [hidden] */
    int hidden;
};

struct vision_times {
    uint64_t sam_ns, clip_ns, projector_ns;
};
/* Called before each view: `done` of `total` pixels are processed, the next view has `next` pixels. Return
 * false to stop. */
typedef bool vision_progress(void *context, uint64_t done, uint64_t next, uint64_t total);

struct vision *vision_open(const struct llm_vision *c, int hidden, struct weights *w);
void vision_close(struct vision *v); /* NULL: nothing */

/* Views of the same size, in host memory. */
struct vision_group {
    struct sam_pixels pixels;
    int views, side;
};
enum { VISION_MOST_GROUPS = 8 };
/* Encodes the views of up to VISION_MOST_GROUPS groups to out[views of all groups, (side/64)^2, hidden]. */
void vision_views(const struct vision *v, struct ops *o, const struct vision_group *g, int groups,
                  struct view out, struct vision_times *times);
/* Computes all views of an image in their order in the sequence: rows[plan->image_tokens, hidden]. The
 * rows of a blank image are not changed; they contain the embeddings of the image token. Returns false if
 * progress() returned false; the rows are then incomplete. */
bool vision_image(const struct vision *v, struct ops *o, const struct dsocr_plan *plan,
                  const struct dsocr_views *views, struct view rows, struct vision_times *times,
                  vision_progress *progress, void *context);

#endif
