#include "engine/dsocr_output.h"

#include <stdlib.h>

#include "base/die.h"

void dsocr_output_parse(const char *text, size_t len, int width, int height, struct dsocr_output *out) {
    (void)width, (void)height;
    *out = (struct dsocr_output){ .text = xstrndup(text, len), .len = len };
}
void dsocr_output_free(struct dsocr_output *o) {
    free(o->text);
    *o = (struct dsocr_output){ 0 };
}
void dsocr_output_markdown(const struct dsocr_output *o, struct strbuf *out) {
    strbuf_add(out, o->text, o->len);
}
void dsocr_output_draw(const struct dsocr_output *o, const struct image *im, struct image *out) {
    (void)o;
    image_crop(im, 0, 0, im->width, im->height, out);
}
int dsocr_output_write(const struct dsocr_output *o, const struct image *im, const char *dir,
                       struct err *err) {
    (void)o, (void)im;
    return err_set(err, "%s: writing OCR results is not built in yet", dir);
}
