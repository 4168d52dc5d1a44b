/* Draws boxes over a page: an outline, a light tint that does not accumulate where boxes overlap, and the
 * label on white. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/ocr/output.h"
#include "engine/ocr/font.h"

#define TINT_ALPHA 20 /* opacity of the tint, of 255 */
#define TITLE_OUTLINE 4
#define OUTLINE 2
#define LABEL_ABOVE 15 /* pixels above the box */
#define LABEL_SCALE 2  /* image pixels per font pixel */

struct colour {
    uint8_t r, g, b;
};

struct page {
    struct image *im;
    struct image tint; /* colours of the tint */
    uint8_t *tinted;   /* [height][width]: 1 for tinted pixels */
};

/* Returns a colour that is dark enough to read on white. It depends only on the group's index. */
static struct colour colour_of(size_t group) {
    static const struct colour colours[] = {
        { 178, 34, 52 },  { 31, 90, 160 },  { 40, 130, 80 }, { 150, 75, 0 },
        { 110, 50, 150 }, { 0, 125, 135 },  { 190, 90, 20 }, { 60, 60, 200 },
        { 120, 120, 20 }, { 170, 40, 120 }, { 70, 90, 110 }, { 20, 110, 30 },
    };
    return colours[group % COUNTOF(colours)];
}

static void set_pixel(struct image *im, int x, int y, struct colour c) {
    uint8_t *p = im->rgb + ((size_t)y * (size_t)im->width + (size_t)x) * 3;
    p[0] = c.r;
    p[1] = c.g;
    p[2] = c.b;
}

/* Removes the parts of the box outside of the image. The result may be empty: x2 < x1 or y2 < y1. */
static struct dsocr_box clip(const struct image *im, struct dsocr_box b) {
    return (struct dsocr_box){ MAX(b.x1, 0), MAX(b.y1, 0), MIN(b.x2, im->width - 1),
                               MIN(b.y2, im->height - 1) };
}

static void fill_box(struct image *im, struct dsocr_box b, struct colour c) {
    b = clip(im, b);
    for (int y = b.y1; y <= b.y2; y++)
        for (int x = b.x1; x <= b.x2; x++) set_pixel(im, x, y, c);
}

static void outline(struct image *im, struct dsocr_box b, int width, struct colour c) {
    fill_box(im, (struct dsocr_box){ b.x1, b.y1, b.x2, MIN(b.y1 + width - 1, b.y2) }, c);
    fill_box(im, (struct dsocr_box){ b.x1, MAX(b.y2 - width + 1, b.y1), b.x2, b.y2 }, c);
    fill_box(im, (struct dsocr_box){ b.x1, b.y1, MIN(b.x1 + width - 1, b.x2), b.y2 }, c);
    fill_box(im, (struct dsocr_box){ MAX(b.x2 - width + 1, b.x1), b.y1, b.x2, b.y2 }, c);
}

static void tint(struct page *page, struct dsocr_box b, struct colour c) {
    fill_box(&page->tint, b, c);
    b = clip(page->im, b);
    for (int y = b.y1; y <= b.y2 && b.x1 <= b.x2; y++)
        memset(page->tinted + (size_t)y * (size_t)page->im->width + b.x1, 1, (size_t)(b.x2 - b.x1 + 1));
}

static void apply_tint(struct page *page) {
    size_t pixels = (size_t)page->im->width * (size_t)page->im->height;
    for (size_t i = 0; i < 3 * pixels; i++) {
        unsigned under = page->im->rgb[i], over = page->tint.rgb[i];
        if (page->tinted[i / 3])
            page->im->rgb[i] = (uint8_t)((under * (255 - TINT_ALPHA) + over * TINT_ALPHA + 127) / 255);
    }
}

struct label {
    struct image *im;
    int x, y;
    struct colour colour;
};

static void label_pixel(void *context, int x, int y) {
    const struct label *l = context;
    int left = l->x + x * LABEL_SCALE, top = l->y + y * LABEL_SCALE;
    fill_box(l->im, (struct dsocr_box){ left, top, left + LABEL_SCALE - 1, top + LABEL_SCALE - 1 },
             l->colour);
}

static void draw_label(struct image *im, const struct dsocr_box *box, const char *text, struct colour c) {
    struct label l = { im, box->x1, MAX(0, box->y1 - LABEL_ABOVE), c };
    size_t n = strnlen(text, 256); /* truncated, because a malformed label may contain half of the page */
    int width = font_width(text, n) * LABEL_SCALE;
    const struct colour white = { 255, 255, 255 };
    if (width == 0 || l.x >= im->width || l.y >= im->height) return;
    fill_box(im, (struct dsocr_box){ l.x, l.y, l.x + width, l.y + FONT_HEIGHT * LABEL_SCALE }, white);
    font_draw(text, n, label_pixel, &l);
}

static void draw_group(struct page *page, const struct dsocr_group *g, struct colour c) {
    int width = strcmp(g->label, "title") == 0 ? TITLE_OUTLINE : OUTLINE;
    for (size_t i = 0; i < g->nboxes; i++) {
        if (g->boxes[i].x2 < g->boxes[i].x1 || g->boxes[i].y2 < g->boxes[i].y1) continue;
        outline(page->im, g->boxes[i], width, c);
        tint(page, g->boxes[i], c);
        draw_label(page->im, &g->boxes[i], g->label, c);
    }
}

void dsocr_output_draw(const struct dsocr_output *o, const struct image *im, struct image *out) {
    struct page page = { .im = out };
    image_crop(im, 0, 0, im->width, im->height, out);
    image_init(&page.tint, im->width, im->height, 0);
    page.tinted = xcalloc((size_t)im->width * (size_t)im->height, 1);
    for (size_t i = 0; i < o->n; i++) draw_group(&page, &o->v[i], colour_of(i));
    apply_tint(&page);
    image_free(&page.tint);
    free(page.tinted);
}
