/* PNG with libpng. The library reports errors with longjmp(), so memory that must be freed is in `struct
 * job`, which belongs to the caller of the function with setjmp(). */
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "engine/image/internal.h"

struct job {
    const struct image_file *file;
    struct bytes in;
    png_structp png;
    png_infop info, end;
    uint8_t *wide; /* 16-bit grey: [height][width], big endian */
    struct image *out;
    struct err *err;
};

static void on_error(png_structp png, const char *message) {
    struct job *job = png_get_error_ptr(png);
    err_set(job->err, "%s: damaged PNG: %s", job->file->what, message);
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, const char *message) {
    (void)png;
    (void)message;
}

static void on_read(png_structp png, png_bytep out, size_t n) {
    struct job *job = png_get_io_ptr(png);
    if (!bytes_copy(&job->in, out, n)) png_error(png, "the file ends too early");
}

/* 16-bit grey is clamped to 255, not scaled, like Pillow's conversion from I;16 to RGB. For all other
 * 16-bit formats the high byte is used. */
static void read_wide_grey(struct job *job, int passes) {
    struct image *im = job->out;
    size_t width = (size_t)im->width;
    uint8_t *all = job->wide = malloc(width * 2 * (size_t)im->height);
    if (!all) png_error(job->png, "not enough memory for its 16-bit pixels");
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < im->height; y++) png_read_row(job->png, all + (size_t)y * width * 2, NULL);
    for (size_t i = 0; i < width * (size_t)im->height; i++)
        memset(im->rgb + 3 * i, all[2 * i] ? 255 : all[2 * i + 1], 3);
}

static void set_transforms(struct job *job, int depth, int colour) {
    if (colour == PNG_COLOR_TYPE_PALETTE) {
        png_set_palette_to_rgb(job->png);
    } else if (colour == PNG_COLOR_TYPE_GRAY && depth < 8) {
        png_set_expand_gray_1_2_4_to_8(job->png);
    }
    png_set_strip_16(job->png);
    png_set_strip_alpha(job->png);
    if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(job->png);
}

static void read_pixels(struct job *job) {
    int colour = png_get_color_type(job->png, job->info), depth = png_get_bit_depth(job->png, job->info);
    bool wide_grey = colour == PNG_COLOR_TYPE_GRAY && depth == 16;
    if (!wide_grey) set_transforms(job, depth, colour);
    int passes = png_set_interlace_handling(job->png);
    png_read_update_info(job->png, job->info);
    size_t row = (size_t)job->out->width * 3;
    if (png_get_rowbytes(job->png, job->info) != (wide_grey ? row / 3 * 2 : row))
        png_error(job->png, "its rows have an unexpected size");
    if (wide_grey) {
        read_wide_grey(job, passes);
        return;
    }
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < job->out->height; y++)
            png_read_row(job->png, job->out->rgb + (size_t)y * row, NULL);
}

static int orientation_in(struct job *job, png_infop info) {
    png_uint_32 n;
    png_bytep exif;
    return png_get_eXIf_1(job->png, info, &n, &exif) ? exif_orientation(exif, n) : 1;
}

static int read_png(struct job *job, int *orientation) {
    if (setjmp(png_jmpbuf(job->png))) return -1; /* err is set */
    png_set_read_fn(job->png, job, on_read);
    png_set_user_limits(job->png, IMAGE_MAX_PIXELS, IMAGE_MAX_PIXELS);
    png_read_info(job->png, job->info);
    uint32_t width = png_get_image_width(job->png, job->info),
             height = png_get_image_height(job->png, job->info);
    if (image_alloc(job->out, width, height, job->file, job->err) < 0) return -1;
    read_pixels(job);
    png_read_end(job->png, job->end);
    *orientation = orientation_in(job, job->info);
    if (*orientation == 1) *orientation = orientation_in(job, job->end);
    return 0;
}

int image_decode_png(const struct image_file *f, struct image *out, int *orientation, struct err *err) {
    struct job job = { .file = f, .in = { f->data, f->data + f->n }, .out = out, .err = err };
    int rc = -1;
    job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
    if (job.png) job.info = png_create_info_struct(job.png);
    if (job.png) job.end = png_create_info_struct(job.png);
    if (job.info && job.end) {
        rc = read_png(&job, orientation);
    } else {
        err_set(err, "%s: libpng %s cannot be initialised", f->what, PNG_LIBPNG_VER_STRING);
    }
    if (job.png) png_destroy_read_struct(&job.png, &job.info, &job.end);
    free(job.wide);
    return rc;
}
