#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "engine/ocr/output.h"
#include "unit/test.h"

#define EOS         \
    "<\xef\xbd\x9c" \
    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"

static const char page[] =
    "\n<|ref|>title<|/ref|><|det|>[[10, 20, 300, 400]]<|/det|>\n# Head\n\n"
    "<|ref|>image<|/ref|><|det|>[[0, 0, 499.5, 500], [500,500,999,999]]<|/det|>\n"
    "<|ref|>text<|/ref|><|det|>[[100, 900, 200, 950],]<|/det|>\nx \\coloneqq y \\eqqcolon z\n" EOS;

static void parse(const char *text, struct dsocr_output *o) {
    dsocr_output_parse(text, strlen(text), 200, 100, o);
}

TEST(groups_boxes_and_labels_are_read) {
    struct dsocr_output o;
    parse(page, &o);
    CHECK_INT(o.n, 3);
    CHECK_STR(o.v[0].label, "title");
    CHECK(!o.v[0].is_image);
    CHECK_INT(o.v[0].nboxes, 1);
    CHECK_INT(o.v[0].boxes[0].x1, 2); /* trunc(10 / 999 * 200) */
    CHECK_INT(o.v[0].boxes[0].y2, 40);
    CHECK(o.v[1].is_image);
    CHECK_INT(o.v[1].nboxes, 2);
    CHECK_INT(o.v[1].boxes[0].x2, 100);
    CHECK_INT(o.v[1].boxes[1].x2, 200);
    CHECK_INT(o.v[2].nboxes, 1);
    dsocr_output_free(&o);
}

TEST(markdown_links_images_and_drops_the_other_groups) {
    struct dsocr_output o;
    struct strbuf out = STRBUF_INIT;
    parse(page, &o);
    dsocr_output_markdown(&o, &out);
    CHECK_STR(out.buf, "\n# Head\n\n![](images/0.jpg)\n\n\nx := y =: z");
    dsocr_output_free(&o);
    strbuf_reset(&out);
    parse("plain \\coloneqq text", &o); /* without other groups nothing is replaced */
    dsocr_output_markdown(&o, &out);
    CHECK_STR(out.buf, "plain \\coloneqq text");
    dsocr_output_free(&o);
    strbuf_free(&out);
}

TEST(equal_groups_share_the_first_link) {
    struct dsocr_output o;
    struct strbuf out = STRBUF_INIT;
#define TWIN "<|ref|>image<|/ref|><|det|>[[1, 2, 3, 4]]<|/det|>"
    parse(TWIN "a" TWIN "b<|ref|>image<|/ref|><|det|>[[5, 6, 7, 8]]<|/det|>", &o);
    dsocr_output_markdown(&o, &out);
    CHECK_STR(out.buf, "![](images/0.jpg)\na![](images/0.jpg)\nb![](images/2.jpg)\n");
    dsocr_output_free(&o);
    strbuf_free(&out);
}

TEST(invalid_coordinates_give_no_boxes) {
    static const char *const bad[] = { "",
                                       "[",
                                       "[[1,2,3]]",
                                       "[[1,2,3,4]",
                                       "[1,2,3,4]",
                                       "[[1,2,3,x]]",
                                       "[[1,2,3,4]]]",
                                       "[[1,2,3,4] [1,2,3,4]]",
                                       "[[1,2,3,nan]]",
                                       "[[,,,]]",
                                       "[[1--2,2,3,4]]" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = xasprintf("<|ref|>a<|/ref|><|det|>%s<|/det|>", bad[i]);
        struct dsocr_output o;
        parse(text, &o);
        CHECK_INT(o.n, 1);
        CHECK(!o.v[0].boxes_valid);
        CHECK_INT(o.v[0].nboxes, 0);
        dsocr_output_free(&o);
        free(text);
    }
}

TEST(an_unfinished_group_is_text) {
    struct dsocr_output o;
    parse("<|ref|>a<|/ref|><|det|>[[1, 2, 3, 4", &o);
    CHECK_INT(o.n, 0);
    dsocr_output_free(&o);
    parse("<|ref|>a<|/ref|> b <|ref|>c<|/ref|><|det|>[[1,2,3,4]]<|/det|>",
          &o); /* a lazy match starts at the first */
    CHECK_INT(o.n, 1);
    CHECK_STR(o.v[0].label, "a<|/ref|> b <|ref|>c");
    dsocr_output_free(&o);
    parse("", &o);
    CHECK_INT(o.n, 0);
    dsocr_output_free(&o);
}

TEST(boxes_are_clipped_to_the_page) {
    struct dsocr_output o;
    struct image im, out, again;
    image_init(&im, 120, 90, 255);
    const char *text =
        "<|ref|>t\xff\xe4<|/ref|><|det|>[[-99999999999, 0, 99999999999, 5], [500, 500, 100, 100],"
        "[2000, 2000, 3000, 3000]]<|/det|><|ref|>title<|/ref|><|det|>[[100, 400, 900, 800]]<|/det|>";
    dsocr_output_parse(text, strlen(text), 120, 90, &o);
    CHECK_INT(o.v[0].nboxes + o.v[1].nboxes, 4);
    dsocr_output_draw(&o, &im, &out);
    dsocr_output_draw(&o, &im, &again);
    CHECK_MEM(out.rgb, again.rgb, 120 * 90 * 3);
    const uint8_t *corner = out.rgb + (36 * 120 + 12) * 3, *inside = out.rgb + (60 * 120 + 60) * 3;
    CHECK(corner[0] < 200);                       /* the outline has its colour */
    CHECK(inside[0] > 230 && inside[0] < 255);    /* the tint is light */
    CHECK_INT(out.rgb[(85 * 120 + 60) * 3], 255); /* outside nothing changes */
    image_free(&im);
    image_free(&out);
    image_free(&again);
    dsocr_output_free(&o);
}

static void check_size(const char *dir, const char *name, int width, int height) {
    char *path = file_join(dir, name);
    struct image im;
    struct err err;
    if (image_load(path, &im, &err) < 0) fail_msg("%s", err.msg);
    CHECK_INT(im.width, width);
    CHECK_INT(im.height, height);
    image_free(&im);
    free(path);
}

TEST(the_folder_holds_text_boxes_and_crops) {
    char *top = test_tmpdir(), *dir = file_join(top, "viz/page"), *mmd = file_join(dir, "result.mmd");
    struct dsocr_output o;
    struct image im;
    struct err err;
    struct strbuf text = STRBUF_INIT;
    image_init(&im, 200, 100, 200);
    parse(page, &o);
    if (dsocr_output_write(&o, &im, dir, &err) < 0) fail_msg("%s", err.msg);
    check_size(dir, "result_with_boxes.jpg", 200, 100);
    check_size(dir, "images/0.jpg", 100, 50);
    check_size(dir, "images/1.jpg", 100, 50);
    CHECK_INT(file_read(mmd, 1000, &text, &err), 0);
    CHECK_STR(text.buf, "\n# Head\n\n![](images/0.jpg)\n\n\nx := y =: z");
    strbuf_free(&text);
    dsocr_output_free(&o);
    image_free(&im);
    free(mmd);
    free(dir);
    free(top);
}
