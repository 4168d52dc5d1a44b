/* Models with images compared with transformers: pixels of its processor, rows of the encoder, logits and 64
 * greedy tokens. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "engine/decoder/decoder.h"
#include "engine/internal.h"
#include "engine/prompt.h"
#include "engine/vision/llava.h"
#include "engine/vision/qwen_vl.h"
#include "unit/engine-models/fixture.h"
#include "unit/test.h"

struct vision_case {
    struct fixture f;
    struct engine *e;
    char path[64];
    const char *images[1];
    uint32_t *ids;
    struct engine_request r;
};

static void open_case(struct vision_case *c, const char *name) {
    fixture_open(&c->f, name);
    c->e = fixture_engine(&c->f, "f32");
    snprintf(c->path, sizeof c->path, "tests/data/engine/%s.png", name);
    c->images[0] = c->path;
    c->r = (struct engine_request){ .images = c->images, .nimages = 1, .ignore_eos = true };
    c->r.nids = fixture_ids(&c->f, "prompt_ids", &c->ids);
    c->r.ids = c->ids;
}

static void close_case(struct vision_case *c) {
    free(c->ids);
    engine_close(c->e);
    fixture_close(&c->f);
}

/* The fixture has every 97th number of the processor's output. */
static void check_pixels(const struct vision_case *c, const float *pixels, size_t n) {
    CHECK_INT(n, fixture_int(&c->f, "npixels"));
    size_t kept = (n + 96) / 97;
    float *some = xcalloc(kept, sizeof *some);
    for (size_t i = 0; i < kept; i++) some[i] = pixels[97 * i];
    fixture_check(&c->f, "pixels", some, kept, 1e-5); /* one level of a pixel is 6e-3 */
    free(some);
}

TEST(llava_pixels_equal_those_of_the_processor) {
    struct vision_case c;
    struct image im;
    struct err err;
    open_case(&c, "llava");
    if (image_load(c.path, &im, &err) < 0) fail_msg("%s", err.msg);
    int side = (int)c.e->model->vision.tower.image_size;
    size_t n = 3 * (size_t)side * (size_t)side;
    float *planes = xcalloc(n, sizeof *planes);
    CHECK_INT(llava_view(&c.e->model->vision, side, &im, planes, &err), 0);
    check_pixels(&c, planes, n);
    free(planes);
    image_free(&im);
    close_case(&c);
}

TEST(qwen2_5_vl_pixels_equal_those_of_the_processor) {
    struct vision_case c;
    struct image im;
    struct err err;
    struct qwen_patches p;
    open_case(&c, "qwen2_5_vl");
    if (image_load(c.path, &im, &err) < 0) fail_msg("%s", err.msg);
    CHECK_INT(qwen_patches_make(c.e->model, &im, &p, &err), 0);
    check_pixels(&c, p.pixels, (size_t)p.grid_height * (size_t)p.grid_width * 3 * 2 * 14 * 14);
    free(p.pixels);
    image_free(&im);
    close_case(&c);
}

/* Windows of 2 x 2 squares on a grid of 3 x 5: those at the edge are smaller. */
TEST(qwen2_5_vl_windows_at_the_edge_are_smaller) {
    static const int want[] = { 0, 1, 5, 6, 2, 3, 7, 8, 4, 9, 10, 11, 12, 13, 14 },
                     sizes[] = { 4, 4, 2, 2, 2, 1 };
    int order[15], size[15];
    CHECK_INT(qwen_window_order(3, 5, 2, order, size), 6);
    CHECK_MEM(order, want, sizeof want);
    CHECK_MEM(size, sizes, sizeof sizes);
}

/* The rows of the image (every third) and the logits of the prompt. */
static void check_rows_and_logits(struct vision_case *c) {
    struct err err;
    struct prompt p;
    struct vision_times times = { 0 };
    struct decoder *d = c->e->decoder;
    struct ops *o = c->e->ops;
    if (prompt_make(&p, c->e, &c->r, 0, &err) < 0) fail_msg("%s", err.msg);
    CHECK_INT(p.ids.n, fixture_int(&c->f, "prompt_tokens"));
    size_t hidden = (size_t)d->hidden, n = (size_t)p.images[0].tokens, kept = 0;
    struct tensor *x = fixture_upload(o, NULL, p.ids.n * hidden), *some = fixture_upload(o, NULL, n * hidden),
                  *logits = fixture_upload(o, NULL, (size_t)d->vocab);
    struct view rows = view_at(view_of(x), p.starts.v[0] * hidden);
    decoder_embed(d, p.ids.v, (int)p.ids.n, view_of(x));
    CHECK(c->e->vision->encoder->encode(c->e->vision->state, o, &p.images[0], rows, &times, NULL, NULL));
    CHECK(times.ns[0] > 0);
    for (size_t i = 0; i < n; i += 3, kept++)
        ops_copy(o, view_at(view_of(some), kept * hidden), view_at(rows, i * hidden), hidden);
    fixture_check_tensor(&c->f, "rows", o, some, kept * hidden, 1e-4);
    struct decoder_rows all = { .n = (int)p.ids.n, .logits = true, .places = prompt_places(&p) };
    decoder_forward_rows(d, view_of(x), (struct decoder_pass){ &all, 1 }, view_of(logits));
    fixture_check_tensor(&c->f, "logits", o, logits, (size_t)d->vocab, 1e-4);
    ops_free(o, x);
    ops_free(o, some);
    ops_free(o, logits);
    prompt_free(&p);
}

static void check_greedy(struct vision_case *c) {
    struct err err;
    struct engine_result got;
    uint32_t *want;
    size_t steps = fixture_ids(&c->f, "greedy", &want);
    c->r.max_new_tokens = (uint32_t)steps;
    for (int again = 0; again < 2; again++) {
        if (engine_infer(c->e, &c->r, &got, &err) < 0) fail_msg("%s", err.msg);
        CHECK_INT(got.ids.n, steps);
        CHECK_MEM(got.ids.v, want, steps * sizeof *want);
        CHECK_INT(got.nstages, 1);
        CHECK_STR(got.stage[0], "vision");
        CHECK(got.stage_ms[0] > 0 && got.stage_ms[0] <= got.prefill_ms);
        engine_result_free(&got);
    }
    free(want);
}

static void check_model(const char *name) {
    struct vision_case c;
    open_case(&c, name);
    check_rows_and_logits(&c);
    check_greedy(&c);
    close_case(&c);
}

TEST(qwen2_5_vl_agrees_with_transformers) { check_model("qwen2_5_vl"); }
TEST(llava_agrees_with_transformers) { check_model("llava"); }

/* The table of rotations is computed again for a text without images. */
TEST(qwen2_5_vl_text_after_an_image_is_as_before_it) {
    struct vision_case c;
    struct err err;
    struct engine_result got[3];
    open_case(&c, "qwen2_5_vl");
    struct engine_request text = { .ids = c.ids, .nids = 4, .max_new_tokens = 24, .ignore_eos = true };
    c.r.max_new_tokens = 24;
    CHECK_INT(engine_infer(c.e, &text, &got[0], &err), 0);
    CHECK_INT(engine_infer(c.e, &c.r, &got[1], &err), 0);
    CHECK_INT(engine_infer(c.e, &text, &got[2], &err), 0);
    CHECK_MEM(got[0].ids.v, got[2].ids.v, 24 * sizeof *got[0].ids.v);
    for (int i = 0; i < 3; i++) engine_result_free(&got[i]);
    close_case(&c);
}

/* Without a tokenizer.json the built-in one encodes the mark; the model's own marks are accepted too. */
TEST(images_of_a_text_prompt_become_rows) {
    static const char *const prompts[] = { "<image>\nHi", "Hi",
                                           "<|vision_start|><|image_pad|><|vision_end|>Hi" };
    struct vision_case c;
    struct err err;
    open_case(&c, "qwen2_5_vl");
    c.r.nids = 0;
    for (size_t i = 0; i < 3; i++) {
        struct prompt p;
        c.r.prompt = prompts[i];
        c.r.prompt_len = strlen(prompts[i]);
        if (prompt_make(&p, c.e, &c.r, 0, &err) < 0) fail_msg("%s", err.msg);
        size_t rows = 0;
        for (size_t k = 0; k < p.ids.n; k++) rows += p.ids.v[k] == 1030;
        CHECK_INT(rows, 18);
        CHECK_INT(p.places.n, p.ids.n);
        CHECK_INT(p.places.shift, 6 - 18);
        prompt_free(&p);
    }
    close_case(&c);
}

TEST(wrong_requests_with_images_are_refused_with_a_remedy) {
    struct vision_case c;
    struct err err;
    struct engine_result got;
    open_case(&c, "llava");
    c.r.max_new_tokens = 1;
    c.r.image_mode = "tiny";
    CHECK_INT(engine_infer(c.e, &c.r, &got, &err), -1);
    CHECK_STR(err.msg, "image modes are only supported by deepseek_ocr, not by llava");
    c.r.image_mode = NULL;
    c.r.nids = 4; /* the ids before the image token */
    CHECK_INT(engine_infer(c.e, &c.r, &got, &err), -1);
    CHECK_STR(err.msg,
              "the prompt contains 0 image tokens, but 1 image was given: write <image> once per image");
    c.r.batch = &(struct token_ids){ .v = c.ids, .n = 4 };
    c.r.nbatch = 1;
    CHECK_INT(engine_infer(c.e, &c.r, &got, &err), -1);
    CHECK_STR(err.msg, "a batch cannot be combined with inputs: send one request per image");
    close_case(&c);
}
