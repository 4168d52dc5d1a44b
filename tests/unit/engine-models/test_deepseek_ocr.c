/* DeepSeek-OCR compared with a plain PyTorch implementation: the encoder's blocks, then a page with tiles. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "engine/decoder/decoder.h"
#include "engine/internal.h"
#include "engine/ocr/encoder.h"
#include "unit/engine-models/fixture.h"
#include "unit/test.h"

static const double most = 1e-4;

static void check_blocks(const char *name) {
    struct fixture f;
    fixture_open(&f, name);
    struct engine *e = fixture_engine(&f, "f32");
    struct dsocr *v = e->vision->state;
    int side = (int)fixture_int(&f, "side"), n = sam_tokens(v->sam, side);
    size_t tokens = (size_t)(n * n), sam_floats = tokens * (size_t)v->sam->out_width;
    size_t clip_floats = tokens * (size_t)v->clip->width, row_floats = tokens * (size_t)v->hidden;
    struct ops *o = e->ops;
    float *x = fixture_rows(&f, "pixels", 3 * (size_t)side * (size_t)side);
    struct tensor *sam = fixture_upload(o, NULL, sam_floats), *clip = fixture_upload(o, NULL, clip_floats),
                  *rows = fixture_upload(o, NULL, row_floats);
    struct vision_times times = { 0 };
    sam_forward(v->sam, o, &(struct sam_part){ { .planes = x }, 1, side, view_of(sam) }, 1);
    fixture_check_tensor(&f, "sam", o, sam, sam_floats, most);
    clip_forward(v->clip, o, &(struct clip_part){ 1, n }, 1, view_of(sam), view_of(clip), 1);
    fixture_check_tensor(&f, "clip", o, clip, clip_floats, most);
    dsocr_encode_views(v, o, &(struct dsocr_part){ { .planes = x }, 1, side }, 1, view_of(rows), &times);
    fixture_check_tensor(&f, "view", o, rows, row_floats, most);
    for (int i = 0; i < 3; i++) CHECK(times.ns[i] > 0);
    ops_free(o, sam);
    ops_free(o, clip);
    ops_free(o, rows);
    free(x);
    engine_close(e);
    fixture_close(&f);
}

TEST(sam_windowed_block_agrees_with_torch) { check_blocks("dsocr_window"); }
TEST(sam_global_block_agrees_with_torch) { check_blocks("dsocr_global"); }
TEST(sam_and_clip_tables_are_resampled_as_in_torch) { check_blocks("dsocr_resampled"); }
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
    CHECK_INT(got.nstages, 3);
    CHECK_STR(got.stage[1], "clip");
    CHECK(got.prefill_ms >= got.stage_ms[0] + got.stage_ms[1] + got.stage_ms[2]);
    engine_result_free(&got);
    engine_close(e);
    free(want);
    fixture_close(&f);
}

/* The rows of the image, and the logits after them. */
TEST(deepseek_ocr_image_rows_and_logits_agree_with_torch) {
    struct fixture f;
    struct err err;
    struct image im;
    struct dsocr_plan plan;
    struct dsocr_views views;
    struct vision_times times = { 0 };
    fixture_open(&f, "dsocr_whole");
    struct engine *e = fixture_engine(&f, "f32");
    struct decoder *d = e->decoder;
    if (image_load("tests/data/engine/dsocr_page.png", &im, &err) < 0) fail_msg("%s", err.msg);
    dsocr_plan_make(dsocr_mode("gundam", &err), im.width, im.height, &plan);
    CHECK_INT(dsocr_views_make(&plan, &im, NULL, &views, &err), 0);
    size_t hidden = (size_t)d->hidden, n = (size_t)plan.image_tokens + 1, kept = 0;
    struct ops *o = e->ops;
    struct tensor *rows = fixture_upload(o, NULL, n * hidden), *sample = fixture_upload(o, NULL, n * hidden);
    struct tensor *logits = fixture_upload(o, NULL, (size_t)d->vocab);
    struct view x = view_of(rows);
    decoder_embed(d, &(uint32_t){ 0 }, 1, x);
    dsocr_encode_image(e->vision->state, o, &plan, &views, view_at(x, hidden), &times, NULL, NULL);
    for (size_t i = 0; i < n - 1; i += 37, kept++)
        ops_copy(o, view_at(view_of(sample), kept * hidden), view_at(x, (i + 1) * hidden), hidden);
    fixture_check_tensor(&f, "rows", o, sample, kept * hidden, most);
    decoder_forward(d, x, DECODER_CHUNK, 0, NULL);
    decoder_forward(d, view_at(x, DECODER_CHUNK * hidden), (int)n - DECODER_CHUNK, DECODER_CHUNK, logits);
    fixture_check_tensor(&f, "logits", o, logits, (size_t)d->vocab, most);
    ops_free(o, rows);
    ops_free(o, sample);
    ops_free(o, logits);
    dsocr_views_free(&views);
    image_free(&im);
    engine_close(e);
    fixture_close(&f);
}
