#include "engine/ocr/preprocess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc_guard.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/tokenizer/unicode.h"

#define PATCH_SIDE 16
#define PATCHES_A_TOKEN 4 /* number of patches along one side of a token: two convolutions of stride 2 */
#define IMAGE_MARK "<image>"

static const struct {
    const char *name;
    struct dsocr_settings set;
} modes[] = {
    { "tiny", { .base_side = 512, .image_side = 512, .stretch_side = 640, .min_tiles = 2, .max_tiles = 9 } },
    { "small", { .base_side = 640, .image_side = 640, .stretch_side = 640, .min_tiles = 2, .max_tiles = 9 } },
    { "base",
      { .base_side = 1024, .image_side = 1024, .stretch_side = 640, .min_tiles = 2, .max_tiles = 9 } },
    { "large",
      { .base_side = 1280, .image_side = 1280, .stretch_side = 640, .min_tiles = 2, .max_tiles = 9 } },
    { "gundam", { 1024, 640, .crop = true, .stretch_side = 640, .min_tiles = 2, .max_tiles = 9 } },
};

const struct dsocr_settings *dsocr_mode(const char *name, struct err *err) {
    for (size_t i = 0; i < COUNTOF(modes); i++)
        if (strcmp(modes[i].name, name) == 0) return &modes[i].set;
    err_set(err, "unknown image mode \"%s\": expected one of tiny, small, base, large, gundam", name);
    return NULL;
}

static int set_side(int *side, const char *name, int value, struct err *err) {
    if (value == 0) return 0;
    if (value < 64 || value > 4096 || value % 64)
        return err_set(err, "%s=%d: expected a multiple of 64 from 64 to 4096", name, value);
    *side = value;
    return 0;
}

int dsocr_set_sizes(struct dsocr_settings *s, int base_side, int image_side, int crop, struct err *err) {
    if (crop) s->crop = crop > 0;
    if (set_side(&s->base_side, "base_size", base_side, err) < 0) return -1;
    return set_side(&s->image_side, "image_size", image_side, err);
}

/* Compares all grids of min_tiles to max_tiles tiles, small grids first, and chooses the grid with the
 * nearest aspect ratio. If two grids are equally near, the larger grid is chosen only if the image has
 * more than half of that grid's pixels. Uses doubles like the original, so that ties are exact. */
void dsocr_grid(const struct dsocr_settings *s, int width, int height, int *grid_w, int *grid_h) {
    double shape = (double)width / height, best = INFINITY;
    double tile_area = (double)s->image_side * s->image_side;
    *grid_w = *grid_h = 1;
    for (int tiles = s->min_tiles; tiles <= s->max_tiles; tiles++) {
        for (int w = 1; w <= tiles; w++) {
            if (tiles % w != 0) continue;
            int h = tiles / w;
            double d = fabs(shape - (double)w / h);
            bool larger_fits = (double)width * height > 0.5 * tile_area * tiles;
            if (!(d < best) && !(d == best && larger_fits)) continue;
            best = d;
            *grid_w = w;
            *grid_h = h;
        }
    }
}

static int side_tokens(int side) { return (side / PATCH_SIDE + PATCHES_A_TOKEN - 1) / PATCHES_A_TOKEN; }

static void count_tokens(struct dsocr_plan *plan) {
    int local = plan->tile_tokens * plan->grid_h * (plan->tile_tokens * plan->grid_w + 1);
    if (plan->grid_w == 0) local = 0;
    plan->image_tokens = local + plan->view_tokens * (plan->view_tokens + 1) + 1;
}

void dsocr_plan_make(const struct dsocr_settings *s, int width, int height, struct dsocr_plan *plan) {
    *plan = (struct dsocr_plan){ .width = width, .height = height, .tile_side = s->image_side };
    plan->view_side = s->crop ? s->base_side : s->image_side;
    plan->stretch = !s->crop && s->image_side <= s->stretch_side;
    plan->view_tokens = side_tokens(plan->view_side);
    plan->tile_tokens = side_tokens(plan->tile_side);
    if (s->crop && (width > s->image_side || height > s->image_side))
        dsocr_grid(s, width, height, &plan->grid_w, &plan->grid_h);
    count_tokens(plan);
}

void dsocr_scale(float scale[256]) {
    for (int v = 0; v < 256; v++) scale[v] = ((float)v / 255.0f - 0.5f) / 0.5f;
}

/* Converts the square [side][side][3] at (x, y) of the image to [3][side][side]. */
static void normalise(const struct image *im, int x, int y, int side, float *out) {
    float scale[256];
    size_t plane = (size_t)side * (size_t)side;
    dsocr_scale(scale);
    for (int row = 0; row < side; row++) {
        const uint8_t *in = im->rgb + ((size_t)(y + row) * (size_t)im->width + (size_t)x) * 3;
        float *r = out + (size_t)row * (size_t)side, *g = r + plane, *b = g + plane;
        for (int col = 0; col < side; col++, in += 3) {
            r[col] = scale[in[0]];
            g[col] = scale[in[1]];
            b[col] = scale[in[2]];
        }
    }
}

static void *heap_alloc(void *context, size_t bytes) {
    (void)context;
    return malloc(bytes);
}
static void heap_free(void *context, void *p) {
    (void)context;
    free(p);
}

/* Copies the square [side][side][3] at (x, y) of the image. */
static void copy_bytes(const struct image *im, int x, int y, int side, uint8_t *out) {
    size_t row_bytes = (size_t)side * 3;
    for (int row = 0; row < side; row++)
        memcpy(out + (size_t)row * row_bytes,
               im->rgb + ((size_t)(y + row) * (size_t)im->width + (size_t)x) * 3, row_bytes);
}

static bool view_alloc(const struct dsocr_views *owner, size_t views, int side, float **floats,
                       uint8_t **bytes, struct err *err) {
    bool small = owner->memory.bytes;
    size_t numbers = views * 3 * (size_t)side * (size_t)side,
           size = small ? numbers : numbers * sizeof(float);
    void *v = alloc_guard_refuses() ? NULL : owner->memory.alloc(owner->memory.context, size);
    if (!v) err_set(err, "not enough memory: %zu bytes for %zu views of the image", size, views);
    *(small ? (void **)bytes : (void **)floats) = v;
    return v != NULL;
}

static int make_tiles(const struct dsocr_plan *plan, const struct image *im, const struct dsocr_views *out,
                      struct err *err) {
    struct image all;
    int side = plan->tile_side;
    size_t tile = 3 * (size_t)side * (size_t)side;
    if (image_resize(im, side * plan->grid_w, side * plan->grid_h, &all, err) < 0) return -1;
    for (int i = 0; i < plan->grid_w * plan->grid_h; i++) {
        int x = i % plan->grid_w * side, y = i / plan->grid_w * side;
        if (out->tiles)
            normalise(&all, x, y, side, out->tiles + (size_t)i * tile);
        else
            copy_bytes(&all, x, y, side, out->tiles_bytes + (size_t)i * tile);
    }
    image_free(&all);
    return 0;
}

int dsocr_views_make(const struct dsocr_plan *plan, const struct image *im, const struct dsocr_memory *memory,
                     struct dsocr_views *out, struct err *err) {
    static const struct dsocr_memory heap = { .alloc = heap_alloc, .free = heap_free };
    struct image view;
    *out = (struct dsocr_views){ .memory = memory ? *memory : heap };
    int rc = plan->stretch ? image_resize(im, plan->view_side, plan->view_side, &view, err)
                           : image_fit_pad(im, plan->view_side, &view, err);
    if (rc < 0) return -1;
    bool made = view_alloc(out, 1, plan->view_side, &out->global, &out->global_bytes, err);
    if (out->global) normalise(&view, 0, 0, plan->view_side, out->global);
    if (out->global_bytes) copy_bytes(&view, 0, 0, plan->view_side, out->global_bytes);
    image_free(&view);
    if (made && plan->grid_w == 0) return 0;
    if (made &&
        view_alloc(out, (size_t)(plan->grid_w * plan->grid_h), plan->tile_side, &out->tiles,
                   &out->tiles_bytes, err) &&
        make_tiles(plan, im, out, err) == 0)
        return 0;
    dsocr_views_free(out);
    return -1;
}

static bool sums_to_nothing(const float *x, const uint8_t *bytes, size_t n) {
    float scale[256];
    double sum = 0;
    dsocr_scale(scale);
    for (size_t i = 0; i < n; i++) sum += x ? x[i] : scale[bytes[i]];
    return sum == 0;
}

void dsocr_drop_blank(struct dsocr_plan *plan, struct dsocr_views *v) {
    size_t tile = 3 * (size_t)plan->tile_side * (size_t)plan->tile_side;
    size_t global = 3 * (size_t)plan->view_side * (size_t)plan->view_side;
    v->blank = sums_to_nothing(v->global, v->global_bytes, global);
    if ((!v->tiles && !v->tiles_bytes) ||
        !sums_to_nothing(v->tiles, v->tiles_bytes, (size_t)(plan->grid_w * plan->grid_h) * tile))
        return;
    v->memory.free(v->memory.context, v->tiles);
    v->memory.free(v->memory.context, v->tiles_bytes);
    v->tiles = NULL;
    v->tiles_bytes = NULL;
    plan->grid_w = plan->grid_h = 0;
    count_tokens(plan);
}

void dsocr_views_free(struct dsocr_views *v) {
    void *const all[] = { v->global, v->tiles, v->global_bytes, v->tiles_bytes };
    for (size_t i = 0; i < COUNTOF(all); i++)
        if (all[i]) v->memory.free(v->memory.context, all[i]);
    *v = (struct dsocr_views){ 0 };
}

static struct dsocr_row *layout_tiles(const struct dsocr_plan *plan, struct dsocr_row *row) {
    int t = plan->tile_tokens;
    for (int y = 0; y < t * plan->grid_h; y++) {
        for (int x = 0; x < t * plan->grid_w; x++) {
            int tile = y / t * plan->grid_w + x / t, token = y % t * t + x % t;
            *row++ = (struct dsocr_row){ DSOCR_ROW_TILE, tile, token };
        }
        *row++ = (struct dsocr_row){ .kind = DSOCR_ROW_NEWLINE };
    }
    return row;
}

void dsocr_layout(const struct dsocr_plan *plan, struct dsocr_row *row) {
    int n = plan->view_tokens;
    if (plan->grid_w > 0) row = layout_tiles(plan, row);
    for (int y = 0; y < n; y++) {
        for (int x = 0; x < n; x++) *row++ = (struct dsocr_row){ DSOCR_ROW_GLOBAL, 0, y * n + x };
        *row++ = (struct dsocr_row){ .kind = DSOCR_ROW_NEWLINE };
    }
    *row = (struct dsocr_row){ .kind = DSOCR_ROW_SEPARATOR };
}

static size_t count_marks(const char *p, const char *end) {
    size_t n = 0;
    while ((p = memmem(p, (size_t)(end - p), IMAGE_MARK, strlen(IMAGE_MARK)))) {
        p += strlen(IMAGE_MARK);
        n++;
    }
    return n;
}

int dsocr_prompt_ids(struct tokenizer *t, const struct dsocr_prompt *prompt, struct token_ids *ids,
                     struct token_ids *starts, struct err *err) {
    const char *end = prompt->text + prompt->len, *p = unicode_skip_spaces(prompt->text, end);
    end = unicode_skip_spaces_back(p, end);
    size_t marks = count_marks(p, end);
    if (marks != prompt->nplans)
        return err_set(
            err, "the prompt contains %zu times " IMAGE_MARK ", but %zu image%s: write it once per image",
            marks, prompt->nplans, prompt->nplans == 1 ? " was given" : "s were given");
    vec_push(ids, prompt->bos_id);
    for (size_t i = 0; i <= marks; i++) {
        const char *stop = i < marks ? memmem(p, (size_t)(end - p), IMAGE_MARK, strlen(IMAGE_MARK)) : end;
        if (tokenizer_encode(t, p, (size_t)(stop - p), TOKENIZER_PLAIN, ids, err) < 0) return -1;
        if (i == marks) break;
        if (starts) vec_push(starts, (uint32_t)ids->n);
        for (int k = 0; k < prompt->plans[i].image_tokens; k++) vec_push(ids, prompt->image_id);
        p = stop + strlen(IMAGE_MARK);
    }
    return 0;
}
