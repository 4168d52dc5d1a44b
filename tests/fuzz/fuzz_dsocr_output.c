/* The output of an OCR model: any text must be parsed, rewritten and drawn. */
#include "engine/ocr/output.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct dsocr_output o;
    struct image page, drawn;
    struct strbuf out = STRBUF_INIT;
    if (size > 4096) return 0;
    image_init(&page, 64, 48, 255);
    dsocr_output_parse((const char *)data, size, page.width, page.height, &o);
    dsocr_output_markdown(&o, &out);
    dsocr_output_draw(&o, &page, &drawn);
    image_free(&drawn);
    image_free(&page);
    strbuf_free(&out);
    dsocr_output_free(&o);
    return 0;
}
