/* DeepSeek-OCR against a plain PyTorch writing of it: the encoder's blocks, then a page with tiles. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "engine/decoder/decoder.h"
#include "engine/engine.h"
#include "engine/ocr/vision.h"
#include "unit/engine-models/fixture.h"
#include "unit/test.h"

static void check_floats(const struct fixture *f, const char *key, const float *got, size_t n) {
    fixture_check(f, key, got, n, 1e-4);
}

static void check_blocks(const char *name) {
    struct fixture f;
    fixture_open(&f, name);
    struct engine *e = fixture_engine(&f, "f32");
    struct vision *v = engine_vision(e);
    int side = (int)fixture_int(&f, "side"), n = sam_tokens(v->sam, side);
    size_t tokens = (size_t)n * (size_t)n;
    float *x = fixture_rows(&f, "pixels", 3 * (size_t)side * (size_t)side),
          *sam = xcalloc(tokens * (size_t)v->sam->out_width, sizeof *sam);
    float *clip = xcalloc(tokens * (size_t)v->clip->width, sizeof *clip);
    float *rows = xcalloc(tokens * (size_t)v->hidden, sizeof *rows);
    struct vision_times times = { 0 };
    sam_forward(v->sam, engine_ops(e), x, side, sam);
    check_floats(&f, "sam", sam, tokens * (size_t)v->sam->out_width);
    clip_forward(v->clip, engine_ops(e), sam, n, clip);
    check_floats(&f, "clip", clip, tokens * (size_t)v->clip->width);
    vision_view(v, engine_ops(e), x, side, rows, &times);
    check_floats(&f, "view", rows, tokens * (size_t)v->hidden);
    CHECK(times.sam_ns > 0 && times.clip_ns > 0 && times.projector_ns > 0);
    free(x);
    free(sam);
    free(clip);
    free(rows);
    engine_close(e);
    fixture_close(&f);
}

TEST(sam_windowed_block_agrees_with_torch) { check_blocks("dsocr_window"); }
TEST(sam_global_block_agrees_with_torch) { check_blocks("dsocr_global"); }
TEST(sam_and_clip_tables_stretch_as_in_torch) { check_blocks("dsocr_resampled"); }
TEST(sam_blocks_and_neck_together_agree_with_torch) { check_blocks("dsocr_neck"); }

TEST(deepseek_ocr_reads_a_page_with_tiles_as_torch_does) {
    struct fixture f;
    struct err err;
    struct engine_result got;
    uint32_t *want;
    fixture_open(&f, "dsocr_whole");
    struct engine *e = fixture_engine(&f, "f32");
    const char *page = "tests/data/engine/dsocr_page.png";
    struct engine_request r = {
        .prompt = "<image>", .prompt_len = 7, .images = &page, .nimages = 1, .ignore_eos = true
    };
    size_t steps = fixture_ids(&f, "greedy", &want);
    r.max_new_tokens = (uint32_t)steps;
    if (engine_infer(e, &r, &got, &err) < 0) fail_msg("%s", err.msg);
    CHECK_INT(got.prompt_tokens, fixture_int(&f, "prompt_tokens"));
    CHECK_INT(got.ids.n, steps);
    CHECK_MEM(got.ids.v, want, steps * sizeof *want);
    CHECK(got.sam_ms > 0 && got.clip_ms > 0 && got.prefill_ms >= got.sam_ms + got.clip_ms + got.projector_ms);
    engine_result_free(&got);
    engine_close(e);
    free(want);
    fixture_close(&f);
}

/* The rows that stand for the image, and the logits after them. */
TEST(deepseek_ocr_image_rows_and_logits_agree_with_torch) {
    struct fixture f;
    struct err err;
    struct image im;
    struct dsocr_plan plan;
    struct dsocr_views views;
    struct vision_times times = { 0 };
    fixture_open(&f, "dsocr_whole");
    struct engine *e = fixture_engine(&f, "f32");
    struct decoder *d = engine_decoder(e);
    if (image_load("tests/data/engine/dsocr_page.png", &im, &err) < 0) fail_msg("%s", err.msg);
    dsocr_plan_make(dsocr_mode("gundam", &err), im.width, im.height, &plan);
    dsocr_views_make(&plan, &im, &views);
    size_t hidden = (size_t)d->hidden, n = (size_t)plan.image_tokens + 1, kept = 0;
    float *x = xcalloc(n * hidden, sizeof *x), *sample = xcalloc(n * hidden, sizeof *sample);
    float *logits = xcalloc((size_t)d->vocab, sizeof *logits);
    decoder_embed(d, engine_ops(e), &(uint32_t){ 0 }, 1, x);
    vision_image(engine_vision(e), engine_ops(e), &plan, &views, x + hidden, &times, NULL, NULL);
    for (size_t i = 0; i < n - 1; i += 37, kept++)
        memcpy(sample + kept * hidden, x + (i + 1) * hidden, hidden * sizeof *x);
    check_floats(&f, "rows", sample, kept * hidden);
    decoder_forward(d, engine_ops(e), x, DECODER_CHUNK, 0, NULL);
    decoder_forward(d, engine_ops(e), x + DECODER_CHUNK * hidden, (int)n - DECODER_CHUNK, DECODER_CHUNK,
                    logits);
    check_floats(&f, "logits", logits, (size_t)d->vocab);
    free(x);
    free(sample);
    free(logits);
    dsocr_views_free(&views);
    image_free(&im);
    engine_close(e);
    fixture_close(&f);
}
