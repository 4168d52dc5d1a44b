#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "base/util.h"
#include "engine/ocr/preprocess.h"
#include "unit/engine-image/noise.h"
#include "unit/test.h"

static struct dsocr_settings gundam(int max_tiles) {
    struct err err;
    struct dsocr_settings s = *dsocr_mode("gundam", &err);
    s.max_tiles = max_tiles;
    return s;
}

TEST(grid_choice_matches_the_reference_table) {
    static const struct {
        int width, height, w9, h9, w6, h6;
    } rows[] = {
        { 641, 640, 2, 2, 2, 2 },   { 429, 806, 1, 2, 1, 2 },   { 1000, 700, 3, 2, 3, 2 },
        { 1654, 2339, 2, 3, 2, 3 }, { 1357, 1357, 2, 2, 2, 2 }, { 1600, 640, 3, 1, 3, 1 },
        { 1920, 1080, 4, 2, 2, 1 }, { 3000, 1200, 4, 2, 3, 1 }, { 1358, 1358, 3, 3, 2, 2 },
        { 4000, 500, 8, 1, 6, 1 },
    };
    struct dsocr_settings nine = gundam(9), six = gundam(6);
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        int w, h;
        dsocr_grid(&nine, rows[i].width, rows[i].height, &w, &h);
        CHECK_INT(w * 100 + h, rows[i].w9 * 100 + rows[i].h9);
        dsocr_grid(&six, rows[i].width, rows[i].height, &w, &h);
        CHECK_INT(w * 100 + h, rows[i].w6 * 100 + rows[i].h6);
    }
}

TEST(modes_give_their_sequence_lengths) {
    static const struct {
        const char *mode;
        int side, rows;
    } rows[] = { { "tiny", 512, 73 }, { "small", 640, 111 }, { "base", 1024, 273 }, { "large", 1280, 421 } };
    struct err err;
    struct dsocr_plan plan;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        dsocr_plan_make(dsocr_mode(rows[i].mode, &err), 1654, 2339, &plan);
        CHECK_INT(plan.view_side, rows[i].side);
        CHECK_INT(plan.grid_w, 0);
        CHECK_INT(plan.image_tokens, rows[i].rows);
        CHECK_INT(plan.stretch, rows[i].side <= 640);
    }
    CHECK(!dsocr_mode("huge", &err));
    CHECK_STR(err.msg, "unknown image mode \"huge\": expected one of tiny, small, base, large, gundam");
}

TEST(gundam_sequence_lengths_follow_the_grid) {
    static const struct {
        int width, height, rows;
    } rows[] = {
        { 640, 640, 273 },   { 1280, 640, 483 },  { 429, 806, 493 },    { 1357, 1357, 693 },
        { 1654, 2339, 903 }, { 2339, 1654, 893 }, { 1358, 1358, 1203 },
    };
    struct err err;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct dsocr_plan plan;
        dsocr_plan_make(dsocr_mode("gundam", &err), rows[i].width, rows[i].height, &plan);
        CHECK_INT(plan.image_tokens, rows[i].rows);
    }
}

TEST(layout_puts_tiles_first_and_ends_with_the_separator) {
    struct err err;
    struct dsocr_plan plan;
    dsocr_plan_make(dsocr_mode("gundam", &err), 1654, 2339, &plan); /* 2 x 3 tiles */
    struct dsocr_row *rows = calloc((size_t)plan.image_tokens, sizeof *rows);
    int kinds[4] = { 0 };
    dsocr_layout(&plan, rows);
    for (int i = 0; i < plan.image_tokens; i++) kinds[rows[i].kind]++;
    CHECK_INT(kinds[DSOCR_ROW_TILE], 600);
    CHECK_INT(kinds[DSOCR_ROW_GLOBAL], 256);
    CHECK_INT(kinds[DSOCR_ROW_NEWLINE], 30 + 16);
    CHECK_INT(rows[plan.image_tokens - 1].kind, DSOCR_ROW_SEPARATOR);
    CHECK_INT(rows[10].tile, 1); /* after ten tokens of tile 0 the row continues in tile 1 */
    CHECK_INT(rows[10].token, 0);
    CHECK_INT(rows[20].kind, DSOCR_ROW_NEWLINE);
    CHECK_INT(rows[21].tile, 0);
    CHECK_INT(rows[21].token, 10);
    CHECK_INT(rows[210].tile, 2); /* ten grid rows of 21 below: the second row of tiles */
    CHECK_INT(rows[630].kind, DSOCR_ROW_GLOBAL);
    CHECK_INT(rows[646].kind, DSOCR_ROW_NEWLINE);
    free(rows);
}

TEST(candidate_grids_are_as_many_as_published) {
    int nine = 0, six = 0;
    for (int w = 1; w <= 9; w++) {
        for (int h = 1; h <= 9; h++) {
            int got_w, got_h; /* an image of exactly that shape, and large, gets that grid or its multiple */
            struct dsocr_settings s = gundam(9);
            if (w * h < 2 || w * h > 9) continue;
            dsocr_grid(&s, 6400 * w, 6400 * h, &got_w, &got_h);
            CHECK_INT(got_w * h, got_h * w);
            nine++;
            six += w * h <= 6;
        }
    }
    CHECK_INT(nine, 22);
    CHECK_INT(six, 13);
}

static void *take(void *context, size_t bytes) {
    (void)context;
    return malloc(bytes);
}
static void give(void *context, void *p) {
    (void)context;
    free(p);
}
static size_t different(const float *planes, const uint8_t *bytes, size_t views, size_t area) {
    float scale[256];
    size_t wrong = 0;
    dsocr_scale(scale);
    for (size_t v = 0; v < views; v++)
        for (size_t i = 0; i < area; i++)
            for (size_t c = 0; c < 3; c++)
                wrong += planes[(v * 3 + c) * area + i] != scale[bytes[(v * area + i) * 3 + c]];
    return wrong;
}
/* Views as bytes have the same numbers as views of floats. */
static void check_bytes(const struct dsocr_plan *plan, const struct image *im,
                        const struct dsocr_views *floats) {
    const struct dsocr_memory memory = { take, give, NULL, .bytes = true };
    struct dsocr_views v;
    struct err err;
    size_t tiles = (size_t)(plan->grid_w * plan->grid_h),
           view = (size_t)plan->view_side * (size_t)plan->view_side,
           tile = (size_t)plan->tile_side * (size_t)plan->tile_side;
    CHECK_INT(dsocr_views_make(plan, im, &memory, &v, &err), 0);
    CHECK(!v.global && !v.tiles);
    CHECK_INT(different(floats->global, v.global_bytes, 1, view), 0);
    CHECK_INT(different(floats->tiles, v.tiles_bytes, tiles, tile), 0);
    dsocr_views_free(&v);
}

TEST(views_equal_the_reference_bit_for_bit) {
    FILE *f = fopen("tests/data/image/views.txt", "r");
    char mode[16];
    int width, height, grid_w, grid_h, cases = 0;
    unsigned global_crc, tiles_crc;
    CHECK(f);
    while (fscanf(f, "%15s %d %d %d %d %x %x", mode, &width, &height, &grid_w, &grid_h, &global_crc,
                  &tiles_crc) == 7) {
        struct err err;
        struct image im;
        struct dsocr_plan plan;
        struct dsocr_views views;
        noise_image(width, height, &im);
        dsocr_plan_make(dsocr_mode(mode, &err), width, height, &plan);
        CHECK_INT(plan.grid_w * 100 + plan.grid_h, grid_w * 100 + grid_h);
        CHECK_INT(dsocr_views_make(&plan, &im, NULL, &views, &err), 0);
        size_t view = 3 * (size_t)plan.view_side * (size_t)plan.view_side * sizeof(float);
        size_t tile = 3 * (size_t)plan.tile_side * (size_t)plan.tile_side * sizeof(float);
        CHECK_INT(crc32_update(0, views.global, view), global_crc);
        CHECK_INT(crc32_update(0, views.tiles, tile * (size_t)(grid_w * grid_h)), tiles_crc);
        check_bytes(&plan, &im, &views);
        dsocr_views_free(&views);
        image_free(&im);
        cases++;
    }
    fclose(f);
    CHECK_INT(cases, 9);
}

TEST(padding_is_grey_127) {
    struct err err;
    struct image im;
    struct dsocr_plan plan;
    struct dsocr_views views;
    noise_image(64, 4, &im);
    dsocr_plan_make(dsocr_mode("base", &err), 64, 4, &plan);
    CHECK_INT(dsocr_views_make(&plan, &im, NULL, &views, &err), 0);
    CHECK_NEAR(views.global[0], -0.00392157, 1e-8);
    dsocr_views_free(&views);
    image_free(&im);
}

/* Half black, half white: -1 and 1 sum to exactly 0, in the global view and in all tiles together. */
TEST(views_whose_sum_is_zero_count_as_absent) {
    static const struct {
        const char *mode;
        int side, white; /* rows */
        bool blank;
        int tokens;
    } cases[] = {
        { "base", 1024, 512, true, 273 },   { "base", 1024, 513, false, 273 },
        { "gundam", 1280, 640, true, 273 }, { "gundam", 1280, 641, false, 693 },
        { "gundam", 640, 320, true, 273 },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct err err;
        struct image im;
        struct dsocr_plan plan;
        struct dsocr_views views;
        size_t row = (size_t)cases[i].side * 3;
        image_init(&im, cases[i].side, cases[i].side, 0);
        memset(im.rgb, 255, (size_t)cases[i].white * row);
        dsocr_plan_make(dsocr_mode(cases[i].mode, &err), im.width, im.height, &plan);
        CHECK_INT(dsocr_views_make(&plan, &im, NULL, &views, &err), 0);
        dsocr_drop_blank(&plan, &views);
        CHECK_INT(plan.image_tokens, cases[i].tokens);
        CHECK_INT(views.blank, cases[i].blank);
        CHECK((views.tiles != NULL) == (plan.grid_w > 0));
        dsocr_views_free(&views);
        image_free(&im);
    }
}

static size_t prompt_ids(const char *text, const struct dsocr_plan *plans, size_t nplans,
                         struct token_ids *ids, struct token_ids *starts) {
    struct tokenizer *t = tokenizer_open_builtin();
    struct dsocr_prompt p = { text, strlen(text), 0, tokenizer_find(t, "<image>"), plans, nplans };
    struct err err;
    CHECK_INT(dsocr_prompt_ids(t, &p, ids, starts, &err), 0);
    tokenizer_close(t);
    return ids->n;
}

TEST(a_prompt_is_bos_the_image_run_and_the_stripped_text) {
    struct err err;
    struct dsocr_plan plans[2];
    struct token_ids ids = { 0 }, starts = { 0 }, text = { 0 };
    dsocr_plan_make(dsocr_mode("base", &err), 300, 200, &plans[0]);
    dsocr_plan_make(dsocr_mode("gundam", &err), 429, 806, &plans[1]);
    size_t nothing = prompt_ids(" \n", NULL, 0, &text, NULL);
    CHECK_INT(nothing, 1); /* BOS alone */
    text.n = 0;
    size_t words = prompt_ids("\nFree OCR.", NULL, 0, &text, NULL) - 1;
    CHECK_INT(prompt_ids("\xe3\x80\x80 <image>Free OCR. \xc2\xa0", plans, 1, &ids, &starts), 1 + 273 + words);
    CHECK_INT(ids.v[0], 0);
    CHECK_INT(starts.v[0], 1);
    CHECK_INT(ids.v[273], 1011);
    CHECK_MEM(ids.v + 274, text.v + 1, words * sizeof *text.v);
    ids.n = starts.n = 0;
    CHECK_INT(prompt_ids("<image>Free OCR.<image>", plans, 2, &ids, &starts), 1 + 273 + words + 493);
    CHECK_INT(starts.v[1], 1 + 273 + words);
    free(ids.v);
    free(starts.v);
    free(text.v);
}

TEST(a_prompt_must_mark_every_image) {
    struct tokenizer *t = tokenizer_open_builtin();
    struct dsocr_plan plan = { .image_tokens = 3 };
    struct dsocr_prompt p = { "no mark", 7, 0, 1011, &plan, 1 };
    struct token_ids ids = { 0 };
    struct err err;
    CHECK_INT(dsocr_prompt_ids(t, &p, &ids, NULL, &err), -1);
    CHECK_STR(err.msg, "the prompt contains 0 times <image>, but 1 image was given: write it once per image");
    free(ids.v);
    tokenizer_close(t);
}
