/* DeepSeek-OCR's output: text with <|ref|>label<|/ref|><|det|>[[x1, y1, x2, y2], ...]<|/det|> groups.
 *     struct dsocr_output o;
 *     dsocr_output_parse(text, len, image.width, image.height, &o);
 *     dsocr_output_markdown(&o, &mmd);
 *     dsocr_output_write(&o, &image, "viz/page1", &err);
 *     dsocr_output_free(&o); */
#ifndef ENGINE_OCR_OUTPUT_H
#define ENGINE_OCR_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "engine/image/image.h"

/* in pixels of the original image; as generated, so it may be empty or outside of the image */
struct dsocr_box {
    int x1, y1, x2, y2;
};

struct dsocr_group {
    char *label;
    bool is_image;     /* its text contains <|ref|>image<|/ref|> */
    bool boxes_valid;  /* the coordinates are valid; else there are no boxes */
    size_t start, end; /* position of the whole group in the text, in bytes */
    struct dsocr_box *boxes;
    size_t nboxes, boxes_cap;
};

struct dsocr_output {
    char *text; /* without the end-of-sentence marker and surrounding white space */
    size_t len;
    struct dsocr_group *v;
    size_t n, cap;
};

void dsocr_output_parse(const char *text, size_t len, int width, int height, struct dsocr_output *out);
void dsocr_output_free(struct dsocr_output *o);

/* Appends result.mmd: image groups become ![](images/K.jpg), the other groups are removed. If there are other
 * groups, \coloneqq becomes := and \eqqcolon becomes =: . */
void dsocr_output_markdown(const struct dsocr_output *o, struct strbuf *out);
/* Draws the boxes over a copy of the image. The colour of a group depends only on its index in the output. */
void dsocr_output_draw(const struct dsocr_output *o, const struct image *im, struct image *out);
/* Writes the files dir/result.mmd, dir/result_with_boxes.jpg and dir/images/K.jpg. */
int dsocr_output_write(const struct dsocr_output *o, const struct image *im, const char *dir,
                       struct err *err);

#endif
