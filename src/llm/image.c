#include "llm/image.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/util.h"

#define SIDE_MAX 100000

/* ---- Operator counts per view */

/* Adds `n` views of a tower without special rules, square or rectangular. */
static void count_tower(const struct llm_model *m, uint64_t cols, uint64_t rows, double n, double tokens_out,
                        struct llm_counts *c) {
    double patches = (double)cols * (double)rows, t = patches + m->vision.class_token;
    c->rows[LLM_ROWS_PATCHES] += n * patches;
    c->rows[LLM_ROWS_TOWER] += n * t;
    c->rows[LLM_ROWS_IMAGE_TOKENS] += n * tokens_out;
    c->rows[LLM_ROWS_VIEWS] += n;
    c->pairs[LLM_PAIRS_TOWER] += n * t * t;
    c->pairs[LLM_PAIRS_POOL] += n * t;
}

/* Counts the query-key pairs inside all windows of w x w merged tokens. Windows at the edge of the grid
 * are smaller, not padded. */
static double window_pairs(uint64_t cols, uint64_t rows, uint64_t w, double patches_per_token) {
    double sum = 0;
    for (uint64_t y = 0; y < rows; y += w)
        for (uint64_t x = 0; x < cols; x += w) {
            double inside = (double)(MIN(w, cols - x) * MIN(w, rows - y)) * patches_per_token;
            sum += inside * inside;
        }
    return sum;
}

/* Adds `n` square views of DeepSeek-OCR with `side` pixels. SAM has (side/16)^2 patches; CLIP has a 16th
 * of that number, and a class token. */
static void count_ocr(const struct llm_vision *v, uint64_t side, double n, struct llm_counts *c) {
    double g = (double)(side / v->sam.patch), w = v->sam.window;
    double windows = ceil(g / w), padded = windows * w, tokens = floor(g / 4) * floor(g / 4);
    double patches = g * g, all = padded * padded, half = ceil(g / 2), quarter = ceil(half / 2);
    c->rows[LLM_ROWS_PATCHES] += n * patches;
    c->rows[LLM_ROWS_PADDED] += n * all;
    c->rows[LLM_ROWS_DOWN1] += n * half * half;
    c->rows[LLM_ROWS_DOWN2] += n * quarter * quarter;
    c->rows[LLM_ROWS_TOWER] += n * (tokens + 1);
    c->rows[LLM_ROWS_IMAGE_TOKENS] += n * tokens;
    c->rows[LLM_ROWS_VIEWS] += n;
    c->pairs[LLM_PAIRS_SAM] += n * patches * patches;
    c->pairs[LLM_PAIRS_SAM_WIN] += n * windows * windows * w * w * w * w;
    c->pairs[LLM_PAIRS_SAM_REL] += n * 2 * patches * g;
    c->pairs[LLM_PAIRS_SAM_REL_WIN] += n * 2 * all * w;
    c->pairs[LLM_PAIRS_TOWER] += n * (tokens + 1) * (tokens + 1);
}

static void add_view(struct llm_image_plan *p, uint64_t width, uint64_t height, uint64_t count) {
    p->views[p->nviews++] = (struct llm_view){ width, height, count };
}

/* ---- Tiles */
void llm_image_grid(uint64_t width, uint64_t height, uint64_t tile, uint64_t min, uint64_t max,
                    uint64_t *grid_width, uint64_t *grid_height) {
    double aspect = (double)width / (double)height, best = INFINITY;
    *grid_width = *grid_height = 1;
    for (uint64_t product = min; product <= max; product++)
        for (uint64_t w = 1; w <= product; w++) {
            if (product % w) continue;
            uint64_t h = product / w;
            double d = fabs(aspect - (double)w / (double)h);
            bool larger = (double)width * (double)height > 0.5 * (double)(tile * tile * product);
            /* NOLINT: exact comparison, as in the reference */
            if (d > best || (d == best && !larger)) continue;
            best = d;
            *grid_width = w;
            *grid_height = h;
        }
}

/* ---- Preprocessing rules */
static const struct ocr_mode {
    const char *name;
    uint64_t base, image;
    bool tiles;
} ocr_modes[] = {
    { "gundam", 1024, 640, true }, { "tiny", 512, 512, false },    { "small", 640, 640, false },
    { "base", 1024, 1024, false }, { "large", 1280, 1280, false },
};

static int check_side(const char *name, uint64_t side, struct err *err) {
    if (side >= 64 && side <= 4096 && side % 64 == 0) return 0;
    return err_set(err, "%s=%" PRIu64 ": expected a multiple of 64 from 64 to 4096", name, side);
}

/* Gets the sizes of the mode. Sizes in the options replace them. */
static int ocr_sizes(const struct llm_image_opts *o, struct ocr_mode *out, struct err *err) {
    const struct ocr_mode *mode = o->mode ? NULL : &ocr_modes[0];
    for (size_t i = 0; o->mode && i < COUNTOF(ocr_modes); i++)
        if (strcmp(o->mode, ocr_modes[i].name) == 0) mode = &ocr_modes[i];
    if (!mode) return err_set(err, "image mode '%s' is not one of gundam, tiny, small, base, large", o->mode);
    *out = *mode;
    if (o->base_size) out->base = o->base_size;
    if (o->image_size) out->image = o->image_size;
    if (o->crop != LLM_CROP_MODE) out->tiles = o->crop == LLM_CROP_ON;
    if (check_side("base_size", out->base, err) < 0) return -1;
    return check_side("image_size", out->image, err);
}

static int plan_ocr(const struct llm_model *m, uint64_t width, uint64_t height,
                    const struct llm_image_opts *o, struct llm_image_plan *p, struct err *err) {
    struct ocr_mode mode = ocr_modes[0];
    if (ocr_sizes(o, &mode, err) < 0) return -1;
    uint64_t side = mode.tiles ? mode.base : mode.image;
    uint64_t n = side / 64; /* tokens per side: 16-pixel patches, then downsampled by 4 */
    add_view(p, side, side, 1);
    count_ocr(&m->vision, side, 1, &p->counts);
    p->tokens = n * (n + 1) + 1; /* one newline token per row, and one separator */
    if (!mode.tiles || (width <= mode.image && height <= mode.image)) return 0;
    uint64_t max = o->max_tiles ? o->max_tiles : m->vision.max_tiles, w, h, k = mode.image / 64;
    llm_image_grid(width, height, mode.image, 2, MAX(2, max), &w, &h);
    p->grid_width = w;
    p->grid_height = h;
    add_view(p, mode.image, mode.image, w * h);
    count_ocr(&m->vision, mode.image, (double)(w * h), &p->counts);
    p->tokens += k * h * (k * w + 1);
    return 0;
}

/* Rounds the sides to multiples of a merged patch, then scales them into the pixel limits. nearbyint() rounds
 * halves to even, like the reference. */
static int plan_qwen(const struct llm_model *m, uint64_t width, uint64_t height, struct llm_image_plan *p,
                     struct err *err) {
    const struct llm_vision *v = &m->vision;
    double unit = (double)(v->tower.patch * v->merge), w = (double)width, h = (double)height;
    if (MAX(w, h) / MIN(w, h) > 200)
        return err_set(
            err, "image %" PRIu64 "x%" PRIu64 ": %s does not accept images with an aspect ratio over 200",
            width, height, m->family);
    double wb = MAX(unit, nearbyint(w / unit) * unit), hb = MAX(unit, nearbyint(h / unit) * unit);
    if (wb * hb > (double)v->max_pixels) {
        double beta = sqrt(w * h / (double)v->max_pixels);
        wb = MAX(unit, floor(w / beta / unit) * unit);
        hb = MAX(unit, floor(h / beta / unit) * unit);
    } else if (wb * hb < (double)v->min_pixels) {
        double beta = sqrt((double)v->min_pixels / (w * h));
        wb = ceil(w * beta / unit) * unit;
        hb = ceil(h * beta / unit) * unit;
    }
    uint64_t cols = (uint64_t)(wb / unit), rows = (uint64_t)(hb / unit);
    add_view(p, (uint64_t)wb, (uint64_t)hb, 1);
    p->tokens = cols * rows;
    count_tower(m, cols * v->merge, rows * v->merge, 1, (double)p->tokens, &p->counts);
    if (v->tower.window)
        p->counts.pairs[LLM_PAIRS_WINDOWS] +=
            window_pairs(cols, rows, v->tower.window, (double)(v->merge * v->merge));
    return 0;
}

static uint64_t square_tokens(const struct llm_vision *v) {
    uint64_t side = v->tower.image_size / v->tower.patch / v->merge;
    return v->tokens_per_view ? v->tokens_per_view : side * side;
}

static void plan_square(const struct llm_model *m, uint64_t count, struct llm_image_plan *p) {
    const struct llm_tower *t = &m->vision.tower;
    uint64_t side = t->image_size / t->patch, tokens = square_tokens(&m->vision);
    add_view(p, t->image_size, t->image_size, count);
    p->tokens += count * tokens;
    count_tower(m, side, side, (double)count, (double)tokens, &p->counts);
}

static void plan_internvl(const struct llm_model *m, uint64_t width, uint64_t height,
                          const struct llm_image_opts *o, struct llm_image_plan *p) {
    uint64_t max = o->max_tiles ? o->max_tiles : m->vision.max_tiles;
    llm_image_grid(width, height, m->vision.tower.image_size, 1, max, &p->grid_width, &p->grid_height);
    uint64_t tiles = p->grid_width * p->grid_height;
    plan_square(m, tiles > 1 ? tiles + 1 : 1, p);
}

int llm_image_plan(const struct llm_model *m, uint64_t width, uint64_t height,
                   const struct llm_image_opts *opts, struct llm_image_plan *plan, struct err *err) {
    *plan = (struct llm_image_plan){ 0 };
    if (m->vision.rule == LLM_IMAGE_NONE)
        return err_set(err, "%s does not support images: remove --image", m->name ? m->name : "this model");
    if (!width || !height || width > SIDE_MAX || height > SIDE_MAX)
        return err_set(err, "image %" PRIu64 "x%" PRIu64 ": sides must be from 1 to %d pixels", width, height,
                       SIDE_MAX);
    if ((opts->mode || opts->base_size || opts->image_size || opts->crop != LLM_CROP_MODE) &&
        m->vision.rule != LLM_IMAGE_DEEPSEEK_OCR)
        return err_set(err, "image modes are only supported by deepseek_ocr, not by %s", m->family);
    if (opts->max_tiles && !m->vision.max_tiles)
        return err_set(err, "%s does not use tiles: remove --max-tiles", m->vision.family);
    if (opts->max_tiles > 1024) return err_set(err, "%" PRIu64 " tiles: at most 1024", opts->max_tiles);
    switch (m->vision.rule) {
    case LLM_IMAGE_DEEPSEEK_OCR: return plan_ocr(m, width, height, opts, plan, err);
    case LLM_IMAGE_QWEN: return plan_qwen(m, width, height, plan, err);
    case LLM_IMAGE_INTERNVL: plan_internvl(m, width, height, opts, plan); return 0;
    case LLM_IMAGE_SQUARE: plan_square(m, 1, plan); return 0;
    case LLM_IMAGE_NONE: break;
    }
    return 0;
}
