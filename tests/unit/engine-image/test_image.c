#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32.h"
#include "base/die.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "engine/image/image.h"
#include "unit/engine-image/noise.h"
#include "unit/test.h"

#define DATA "tests/data/image/"

static uint32_t pixels_crc(const struct image *im) {
    return crc32_update(0, im->rgb, (size_t)im->width * (size_t)im->height * 3);
}

static FILE *open_list(const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) die("%s is missing: run from the top of the source", path);
    return f;
}

TEST(every_kind_of_file_decodes_to_pillows_pixels) {
    FILE *f = open_list(DATA "expected.txt");
    char name[64];
    int width, height, files = 0;
    unsigned crc;
    while (fscanf(f, "%63s %d %d %x", name, &width, &height, &crc) == 4) {
        char *path = xasprintf(DATA "%s", name);
        struct image im;
        struct err err;
        if (image_load(path, &im, &err) < 0) fail_msg("%s", err.msg);
        if (im.width != width || im.height != height || pixels_crc(&im) != crc)
            fail_msg("%s: %d x %d, crc %08x; Pillow has %d x %d, crc %08x", name, im.width, im.height,
                     pixels_crc(&im), width, height, crc);
        image_free(&im);
        free(path);
        files++;
    }
    fclose(f);
    CHECK_INT(files, 50);
}

TEST(resize_and_pad_equal_pillow_bit_for_bit) {
    FILE *f = open_list(DATA "resize.txt");
    char kind[16];
    int width, height, a, b = 0, cases = 0;
    unsigned crc;
    while (fscanf(f, "%15s %d %d %d", kind, &width, &height, &a) == 4) {
        struct image in, out;
        struct err err;
        bool pad = strcmp(kind, "pad") == 0;
        CHECK(pad || fscanf(f, "%d", &b) == 1);
        CHECK_INT(fscanf(f, "%x", &crc), 1);
        noise_image(width, height, &in);
        if (pad) {
            CHECK_INT(image_fit_pad(&in, a, &out, &err), 0);
        } else {
            CHECK_INT(image_resize(&in, a, b, &out, &err), 0);
        }
        if (pixels_crc(&out) != crc) fail_msg("%s %d x %d to %d %d differs", kind, width, height, a, b);
        image_free(&in);
        image_free(&out);
        cases++;
    }
    fclose(f);
    CHECK_INT(cases, 195);
}

static char *temporary_file(const char *name) {
    char *dir = test_tmpdir(), *path = file_join(dir, name);
    free(dir);
    return path;
}

TEST(a_written_jpeg_reads_back_nearly_the_same) {
    char *path = temporary_file("a.jpg");
    struct image im, back;
    struct err err;
    long off = 0;
    image_init(&im, 40, 30, 0);
    for (int i = 0; i < 40 * 30 * 3; i++) im.rgb[i] = (uint8_t)(i / 3 % 40 * 6);
    CHECK_INT(image_write_jpeg(path, &im, 95, &err), 0);
    CHECK_INT(image_load(path, &back, &err), 0);
    for (int i = 0; i < 40 * 30 * 3; i++) off += labs((long)im.rgb[i] - back.rgb[i]);
    CHECK(off < 2 * 40 * 30 * 3); /* on average within 2 of 255: observed 0.4 */
    image_free(&im);
    image_free(&back);
    free(path);
}

TEST(writing_into_a_missing_folder_is_an_error) {
    struct image im;
    struct err err;
    image_init(&im, 2, 2, 9);
    CHECK_INT(image_write_jpeg("no/such/folder/x.jpg", &im, 90, &err), -1);
    CHECK(strstr(err.msg, "no/such/folder/x.jpg"));
    image_free(&im);
}

/* Every prefix of every file: an error with its name, or an image; never a crash or a leak (make SAN=1). */
static void cut_everywhere(const char *name) {
    struct strbuf file = STRBUF_INIT;
    struct image im;
    struct err err;
    char *path = xasprintf(DATA "%s", name);
    CHECK_INT(file_read(path, 1 << 20, &file, &err), 0);
    for (size_t n = 0; n < file.len; n += n < 700 ? 1 : 37) {
        if (image_decode(file.buf, n, name, &im, &err) == 0) {
            CHECK(n + 12 + 16 > file.len); /* only the end mark may be missing */
            image_free(&im);
        } else {
            CHECK(!im.rgb);
            CHECK(strstr(err.msg, name));
        }
    }
    strbuf_free(&file);
    free(path);
}

TEST(truncated_files_are_rejected) {
    cut_everywhere("rgb8.png");
    cut_everywhere("grey16_interlaced.png");
    cut_everywhere("rgb_420.jpg");
    cut_everywhere("progressive.jpg");
    cut_everywhere("exif6.jpg");
}

TEST(enormous_images_are_rejected_before_decoding) {
    struct strbuf file = STRBUF_INIT;
    struct image im;
    struct err err;
    CHECK_INT(file_read(DATA "rgb8.png", 1 << 20, &file, &err), 0);
    static const uint8_t huge[] = { 0x00, 0x01, 0x11, 0x70, 0x00, 0x01, 0x11, 0x70 }; /* 70000 x 70000 */
    memcpy(file.buf + 16, huge, sizeof huge);
    uint32_t crc = crc32_update(0, file.buf + 12, 17);
    for (int i = 0; i < 4; i++) file.buf[29 + i] = (char)(crc >> (24 - 8 * i));
    CHECK_INT(image_decode(file.buf, file.len, "big.png", &im, &err), -1);
    CHECK_STR(
        err.msg,
        "big.png: 70000 x 70000 pixels are more than the limit of 178956970: scale the image down first");
    strbuf_free(&file);
    CHECK_INT(file_read(DATA "rgb_444.jpg", 1 << 20, &file, &err), 0);
    char *size = memmem(file.buf, file.len, "\xff\xc0", 2);
    CHECK(size);
    memcpy(size + 5, "\xff\xdc\xff\xdc", 4); /* 65500 x 65500 */
    CHECK_INT(image_decode(file.buf, file.len, "big.jpg", &im, &err), -1);
    CHECK_STR(
        err.msg,
        "big.jpg: 65500 x 65500 pixels are more than the limit of 178956970: scale the image down first");
    strbuf_free(&file);
}

TEST(other_formats_are_rejected_by_name) {
    struct image im;
    struct err err;
    CHECK_INT(image_decode("GIF89a", 6, "x.gif", &im, &err), -1);
    CHECK_STR(err.msg, "x.gif: neither PNG nor JPEG: convert the image first");
    CHECK_INT(image_load("no/such.png", &im, &err), -1);
    CHECK(strstr(err.msg, "no/such.png"));
}

TEST(long_and_narrow_image_is_an_error_instead_of_an_endless_resize) {
    struct image tall, out;
    struct err err;
    image_init(&tall, 1, 4000000, 100);
    CHECK_INT(image_resize(&tall, 640, 5760, &out, &err), -1); /* 640 x 4000000 between the passes: 7.7 GB */
    CHECK(strstr(err.msg, "an image of 1 x 4000000 pixels cannot be resized to 640 x 5760") != NULL);
    CHECK(out.rgb == NULL);
    CHECK_INT(image_fit_pad(&tall, 64, &out, &err), 0);
    image_free(&out);
    image_free(&tall);
}
