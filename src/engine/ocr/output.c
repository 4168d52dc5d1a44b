#include "engine/ocr/output.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/tokenizer/unicode.h"

#define REF "<|ref|>"
#define REF_TO_DET "<|/ref|><|det|>"
#define DET_END "<|/det|>"
#define IMAGE_REF "<|ref|>image<|/ref|>"
#define END_OF_SENTENCE \
    "<\xef\xbd\x9c"     \
    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"
#define SCALE 999.0 /* coordinates range from 0 to this value across the original image */
#define CROP_QUALITY 90
#define PAGE_QUALITY 90

/* ---- coordinates: [[x1, y1, x2, y2], ...], in Python's syntax */
struct cursor {
    const char *p, *end;
};

static bool accept_char(struct cursor *c, char what) {
    while (c->p < c->end && isspace((unsigned char)*c->p)) c->p++;
    if (c->p == c->end || *c->p != what) return false;
    c->p++;
    return true;
}

static bool take_number(struct cursor *c, double *out) {
    char text[32];
    while (c->p < c->end && isspace((unsigned char)*c->p)) c->p++;
    size_t n = 0;
    while (c->p + n < c->end && n < sizeof text - 1 && c->p[n] && strchr("0123456789+-.", c->p[n])) n++;
    memcpy(text, c->p, n);
    text[n] = '\0';
    char *stop;
    *out = strtod(text, &stop);
    c->p += n;
    return n > 0 && *stop == '\0' && isfinite(*out);
}

static int to_pixel(double v, int side) {
    double pixel = trunc(v / SCALE * side);
    return pixel > INT_MAX / 2 ? INT_MAX / 2 : pixel < -INT_MAX / 2 ? -INT_MAX / 2 : (int)pixel;
}

static bool take_box(struct cursor *c, int width, int height, struct dsocr_box *box) {
    double v[4];
    if (!accept_char(c, '[')) return false;
    for (int i = 0; i < 4; i++)
        if (!take_number(c, &v[i]) || (i < 3 && !accept_char(c, ','))) return false;
    accept_char(c, ',');
    *box = (struct dsocr_box){ to_pixel(v[0], width), to_pixel(v[1], height), to_pixel(v[2], width),
                               to_pixel(v[3], height) };
    return accept_char(c, ']');
}

static void add_box(struct dsocr_group *g, struct dsocr_box box) {
    g->boxes = vec_fit(g->boxes, g->nboxes + 1, &g->boxes_cap, sizeof *g->boxes);
    g->boxes[g->nboxes++] = box;
}

/* Returns false if there is a syntax error anywhere. All boxes are then invalid. */
static bool read_boxes(struct dsocr_group *g, struct cursor c, int width, int height) {
    struct dsocr_box box;
    if (!accept_char(&c, '[')) return false;
    while (!accept_char(&c, ']')) {
        if (!take_box(&c, width, height, &box)) return false;
        add_box(g, box);
        if (!accept_char(&c, ',') && !(c.p < c.end && *c.p == ']')) return false;
    }
    while (c.p < c.end && isspace((unsigned char)*c.p)) c.p++;
    return c.p == c.end;
}

/* ---- groups */
static const char *find_text(const char *p, const char *end, const char *what) {
    return memmem(p, (size_t)(end - p), what, strlen(what));
}

/* Finds the next group: the shortest label and the shortest coordinates that complete it, like a lazy
 * regex. A label may include an unfinished group. Returns NULL if there are no more groups. */
static const char *next_group(const struct dsocr_output *o, const char *from, int width, int height,
                              struct dsocr_group *g) {
    const char *end = o->text + o->len, *start = find_text(from, end, REF);
    const char *label = start ? start + strlen(REF) : NULL,
               *middle = label ? find_text(label, end, REF_TO_DET) : NULL;
    const char *boxes = middle ? middle + strlen(REF_TO_DET) : NULL,
               *stop = boxes ? find_text(boxes, end, DET_END) : NULL;
    if (!stop) return NULL;
    const char *after = stop + strlen(DET_END);
    *g = (struct dsocr_group){ .label = xstrndup(label, (size_t)(middle - label)),
                               .start = (size_t)(start - o->text),
                               .end = (size_t)(after - o->text),
                               .is_image = find_text(start, after, IMAGE_REF) != NULL };
    g->boxes_valid = read_boxes(g, (struct cursor){ boxes, stop }, width, height);
    if (!g->boxes_valid) g->nboxes = 0;
    return after;
}

void dsocr_output_parse(const char *text, size_t len, int width, int height, struct dsocr_output *out) {
    size_t eos = strlen(END_OF_SENTENCE);
    if (len >= eos && memcmp(text + len - eos, END_OF_SENTENCE, eos) == 0) len -= eos;
    const char *end = text + len, *p = unicode_skip_spaces(text, end);
    len = (size_t)(unicode_skip_spaces_back(p, end) - p);
    char *copy = xstrndup(p, len);
    *out = (struct dsocr_output){ .text = copy, .len = len };
    struct dsocr_group g;
    for (const char *at = copy; (at = next_group(out, at, width, height, &g));) vec_push(out, g);
}

void dsocr_output_free(struct dsocr_output *o) {
    for (size_t i = 0; i < o->n; i++) {
        free(o->v[i].label);
        free(o->v[i].boxes);
    }
    free(o->v);
    free(o->text);
    *o = (struct dsocr_output){ 0 };
}

/* ---- result.mmd. Each image group gets the next number. If several groups have the same text, all of
 * them get the link of the first one. */
void dsocr_output_markdown(const struct dsocr_output *o, struct strbuf *out) {
    struct strbuf text = STRBUF_INIT;
    strbuf_add(&text, o->text, o->len);
    size_t images = 0;
    for (size_t i = 0; i < o->n; i++) {
        const struct dsocr_group *g = &o->v[i];
        char link[48];
        if (!g->is_image) continue;
        int n = snprintf(link, sizeof link, "![](images/%zu.jpg)\n", images++);
        strbuf_replace(&text, o->text + g->start, g->end - g->start, link, (size_t)n);
    }
    for (size_t i = 0; i < o->n; i++) {
        const struct dsocr_group *g = &o->v[i];
        if (g->is_image) continue;
        strbuf_replace(&text, o->text + g->start, g->end - g->start, "", 0);
        strbuf_replace(&text, "\\coloneqq", 9, ":=", 2);
        strbuf_replace(&text, "\\eqqcolon", 9, "=:", 2);
    }
    strbuf_add(out, text.buf, text.len);
    strbuf_free(&text);
}

/* ---- files */
static int write_crop(const struct image *im, const struct dsocr_box *box, const char *path,
                      struct err *err) {
    int x1 = MAX(box->x1, 0), y1 = MAX(box->y1, 0), x2 = MIN(box->x2, im->width),
        y2 = MIN(box->y2, im->height);
    if (x1 >= x2 || y1 >= y2) return 0; /* empty box: not written, but its number is not reused */
    struct image crop;
    image_crop(im, x1, y1, x2 - x1, y2 - y1, &crop);
    int rc = image_write_jpeg(path, &crop, CROP_QUALITY, err);
    image_free(&crop);
    return rc;
}

static int write_crops(const struct dsocr_output *o, const struct image *im, const char *dir,
                       struct err *err) {
    size_t number = 0;
    for (size_t i = 0; i < o->n; i++) {
        const struct dsocr_group *g = &o->v[i];
        if (strcmp(g->label, "image") != 0) continue;
        for (size_t b = 0; b < g->nboxes; b++) {
            char *path = xasprintf("%s/images/%zu.jpg", dir, number++);
            int rc = write_crop(im, &g->boxes[b], path, err);
            free(path);
            if (rc < 0) return -1;
        }
    }
    return 0;
}

static int write_page(const struct dsocr_output *o, const struct image *im, const char *dir,
                      struct err *err) {
    struct image drawn;
    char *path = file_join(dir, "result_with_boxes.jpg");
    dsocr_output_draw(o, im, &drawn);
    int rc = image_write_jpeg(path, &drawn, PAGE_QUALITY, err);
    image_free(&drawn);
    free(path);
    return rc;
}

int dsocr_output_write(const struct dsocr_output *o, const struct image *im, const char *dir,
                       struct err *err) {
    struct strbuf text = STRBUF_INIT;
    char *images = file_join(dir, "images"), *mmd = file_join(dir, "result.mmd");
    dsocr_output_markdown(o, &text);
    int rc = file_mkdirs(images, err);
    if (rc == 0) rc = file_write_atomic(mmd, text.buf, text.len, err);
    if (rc == 0) rc = write_crops(o, im, dir, err);
    if (rc == 0) rc = write_page(o, im, dir, err);
    strbuf_free(&text);
    free(images);
    free(mmd);
    return rc;
}
