/* JPEG with libjpeg-turbo. The library reports errors with longjmp(), so memory that must be freed is
 * referenced from the caller's frame. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "base/file.h"
#include "base/util.h"
#include "engine/image/internal.h"

#define MAX_SCANS 200 /* files with more scans are rejected; most have about ten, and thousands are slow */
#define EXIF_MARK "Exif\0\0"
#define EXIF_MARK_BYTES 6u

struct on_error { /* `base` must be first: libjpeg passes a pointer to it */
    struct jpeg_error_mgr base;
    jmp_buf leave;
    const char *what;
    struct err *err;
};

struct job {
    struct jpeg_decompress_struct jpeg;
    struct on_error error;
    struct jpeg_progress_mgr progress;
    uint8_t *row; /* [width][channels] */
    struct image *out;
};

static void leave(j_common_ptr jpeg) {
    struct on_error *e = (struct on_error *)jpeg->err;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    err_set(e->err, "%s: %s JPEG: %s", e->what, jpeg->is_decompressor ? "damaged" : "cannot write", text);
    longjmp(e->leave, 1);
}

/* Ignores warnings about damaged data, so that decoding continues. A truncated file is an error. */
static void message(j_common_ptr jpeg, int level) {
    struct on_error *e = (struct on_error *)jpeg->err;
    if (level >= 0 || jpeg->err->msg_code != JWRN_JPEG_EOF) return;
    err_set(e->err, "%s: damaged JPEG: the file ends too early", e->what);
    longjmp(e->leave, 1);
}

static void stay_quiet(j_common_ptr jpeg) { (void)jpeg; }

static void watch_scans(j_common_ptr jpeg) {
    struct on_error *e = (struct on_error *)jpeg->err;
    if (((j_decompress_ptr)jpeg)->input_scan_number <= MAX_SCANS) return;
    err_set(e->err, "%s: JPEG with more than %d scans is not supported", e->what, MAX_SCANS);
    longjmp(e->leave, 1);
}

static struct jpeg_error_mgr *error_init(struct on_error *e, const char *what, struct err *err) {
    jpeg_std_error(&e->base);
    e->base.error_exit = leave;
    e->base.emit_message = message;
    e->base.output_message = stay_quiet;
    e->what = what;
    e->err = err;
    return &e->base;
}

static int orientation_of(j_decompress_ptr jpeg) {
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m; m = m->next)
        if (m->data_length > EXIF_MARK_BYTES && memcmp(m->data, EXIF_MARK, EXIF_MARK_BYTES) == 0)
            return exif_orientation(m->data + EXIF_MARK_BYTES, m->data_length - EXIF_MARK_BYTES);
    return 1;
}

static uint8_t product_255(unsigned a, unsigned b) { /* a * b / 255, rounded */
    unsigned t = a * b + 128;
    return (uint8_t)((t + (t >> 8)) >> 8);
}

/* Adobe's CMYK is stored inverted. */
static void cmyk_to_rgb(const uint8_t *in, uint8_t *out, bool inverted) {
    uint8_t flip = inverted ? 255 : 0;
    unsigned light = 255u - (in[3] ^ flip);
    for (int c = 0; c < 3; c++) out[c] = (uint8_t)(light - product_255(in[c] ^ flip, light));
}

static void store_row(struct job *job, uint8_t *out) {
    int channels = job->jpeg.output_components;
    for (int x = 0; x < job->out->width; x++, out += 3) {
        const uint8_t *in = job->row + (size_t)x * (size_t)channels;
        if (channels == 4) {
            cmyk_to_rgb(in, out, job->jpeg.saw_Adobe_marker);
        } else {
            memset(out, in[0], 3);
            if (channels == 3) memcpy(out, in, 3);
        }
    }
}

static void choose_output(j_decompress_ptr jpeg) {
    J_COLOR_SPACE in = jpeg->jpeg_color_space;
    jpeg->out_color_space = JCS_RGB;
    if (in == JCS_GRAYSCALE) jpeg->out_color_space = JCS_GRAYSCALE;
    if (in == JCS_CMYK || in == JCS_YCCK) jpeg->out_color_space = JCS_CMYK;
}

static int read_jpeg(struct job *job, const struct image_file *f, int *orientation) {
    j_decompress_ptr jpeg = &job->jpeg;
    if (setjmp(job->error.leave)) return -1; /* err is set */
    jpeg_create_decompress(jpeg);
    job->progress.progress_monitor = watch_scans;
    jpeg->progress = &job->progress;
    jpeg_mem_src(jpeg, f->data, f->n);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(jpeg, TRUE);
    *orientation = orientation_of(jpeg);
    if (image_alloc(job->out, jpeg->image_width, jpeg->image_height, f, job->error.err) < 0) return -1;
    choose_output(jpeg);
    jpeg_start_decompress(jpeg);
    job->row = malloc((size_t)jpeg->output_width * (size_t)jpeg->output_components);
    if (!job->row)
        return err_set(job->error.err, "%s: not enough memory for a row of pixels", job->error.what);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *out = job->out->rgb + (size_t)jpeg->output_scanline * (size_t)job->out->width * 3;
        jpeg_read_scanlines(jpeg, &job->row, 1);
        store_row(job, out);
    }
    jpeg_finish_decompress(jpeg);
    return 0;
}

int image_decode_jpeg(const struct image_file *f, struct image *out, int *orientation, struct err *err) {
    struct job job = { .out = out };
    job.jpeg.err = error_init(&job.error, f->what, err);
    int rc = read_jpeg(&job, f, orientation);
    jpeg_destroy_decompress(&job.jpeg);
    free(job.row);
    return rc;
}

struct writer {
    struct jpeg_compress_struct jpeg;
    struct on_error error;
    unsigned char *file;
    unsigned long bytes;
};

static int compress(struct writer *w, const struct image *im, int quality) {
    if (setjmp(w->error.leave)) return -1; /* err is set */
    jpeg_create_compress(&w->jpeg);
    jpeg_mem_dest(&w->jpeg, &w->file, &w->bytes);
    w->jpeg.image_width = (JDIMENSION)im->width;
    w->jpeg.image_height = (JDIMENSION)im->height;
    w->jpeg.input_components = 3;
    w->jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&w->jpeg);
    jpeg_set_quality(&w->jpeg, quality, TRUE);
    jpeg_start_compress(&w->jpeg, TRUE);
    while (w->jpeg.next_scanline < w->jpeg.image_height) {
        JSAMPROW row = im->rgb + (size_t)w->jpeg.next_scanline * (size_t)im->width * 3;
        jpeg_write_scanlines(&w->jpeg, &row, 1);
    }
    jpeg_finish_compress(&w->jpeg);
    return 0;
}

int image_write_jpeg(const char *path, const struct image *im, int quality, struct err *err) {
    struct writer w = { 0 };
    if (MAX(im->width, im->height) > JPEG_MAX_DIMENSION)
        return err_set(err, "%s: %d x %d pixels exceed the limit of JPEG", path, im->width, im->height);
    w.jpeg.err = error_init(&w.error, path, err);
    int rc = compress(&w, im, quality);
    if (rc == 0) rc = file_write_atomic(path, w.file, w.bytes, err);
    jpeg_destroy_compress(&w.jpeg);
    free(w.file);
    return rc;
}
