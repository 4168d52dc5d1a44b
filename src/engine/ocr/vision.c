#include "engine/ocr/vision.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"

struct vision *vision_open(const struct llm_vision *c, int hidden, struct weights *w) {
    struct vision *v = xcalloc(1, sizeof *v);
    v->hidden = hidden;
    v->sam = sam_open(c, w);
    v->clip = clip_open(c, w);
    v->projector.w =
        weights_matrix(w, hidden, v->clip->width + v->sam->out_width, "model.projector.layers.weight");
    v->projector.bias = weights_vector(w, hidden, WEIGHTS_BIAS, "model.projector.layers.bias");
    v->newline = weights_vector(w, hidden, WEIGHTS_ROWS, "model.image_newline");
    v->separator = weights_vector(w, hidden, WEIGHTS_ROWS, "model.view_seperator"); /* as spelt there */
    return v;
}

void vision_close(struct vision *v) {
    if (!v) return;
    sam_close(v->sam);
    clip_close(v->clip);
    free(v);
}

/* out = projector([clip, sam]) row by row. */
static void project(const struct vision *v, struct ops *o, const float *clip, const float *sam, int n,
                    float *out) {
    size_t a = (size_t)v->clip->width, b = (size_t)v->sam->out_width;
    float *both = xmalloc((size_t)n * (a + b) * sizeof *both);
    for (size_t i = 0; i < (size_t)n; i++) {
        memcpy(both + i * (a + b), clip + i * a, a * sizeof *both);
        memcpy(both + i * (a + b) + a, sam + i * b, b * sizeof *both);
    }
    ops_linear(o, "projector", &v->projector, both, (ptrdiff_t)(a + b), n, out, v->hidden, OPS_SET);
    free(both);
}

void vision_view(const struct vision *v, struct ops *o, const float *pixels, int side, float *out,
                 struct vision_times *times) {
    int n = sam_tokens(v->sam, side);
    size_t tokens = (size_t)n * (size_t)n;
    float *sam = xmalloc(tokens * (size_t)v->sam->out_width * sizeof *sam);
    float *clip = xmalloc(tokens * (size_t)v->clip->width * sizeof *clip);
    uint64_t t0 = clock_mono_ns();
    record_push(o->rec, RECORD_STAGES, "sam", -1);
    sam_forward(v->sam, o, pixels, side, sam);
    record_pop(o->rec, RECORD_STAGES);
    uint64_t t1 = clock_mono_ns();
    record_push(o->rec, RECORD_STAGES, "clip", -1);
    clip_forward(v->clip, o, sam, n, clip);
    record_pop(o->rec, RECORD_STAGES);
    uint64_t t2 = clock_mono_ns();
    record_push(o->rec, RECORD_STAGES, "projector", -1);
    project(v, o, clip, sam, (int)tokens, out);
    record_pop(o->rec, RECORD_STAGES);
    times->sam_ns += t1 - t0;
    times->clip_ns += t2 - t1;
    times->projector_ns += clock_mono_ns() - t2;
    free(sam);
    free(clip);
}

static const float *source_of(const struct vision *v, const struct dsocr_plan *plan,
                              const struct dsocr_row *row, const float *global, const float *tiles) {
    size_t tile_tokens = (size_t)plan->tile_tokens * (size_t)plan->tile_tokens, hidden = (size_t)v->hidden;
    switch (row->kind) {
    case DSOCR_ROW_TILE: return tiles + ((size_t)row->tile * tile_tokens + (size_t)row->token) * hidden;
    case DSOCR_ROW_GLOBAL: return global + (size_t)row->token * hidden;
    case DSOCR_ROW_NEWLINE: return v->newline;
    case DSOCR_ROW_SEPARATOR: break;
    }
    return v->separator;
}

/* Every view through the towers: tiles into local[tile][token][hidden], the whole page into global. */
static bool run_views(const struct vision *v, struct ops *o, const struct dsocr_plan *plan,
                      const struct dsocr_views *views, float *local, float *global,
                      struct vision_times *times, vision_progress *progress, void *context) {
    size_t tokens = (size_t)(plan->tile_tokens * plan->tile_tokens);
    size_t pixels = (size_t)plan->tile_side * (size_t)plan->tile_side * 3;
    int tiles = plan->grid_w * plan->grid_h;
    uint64_t page = (uint64_t)plan->view_side * (uint64_t)plan->view_side,
             all = (uint64_t)tiles * pixels / 3 + page;
    for (int i = 0; i < tiles; i++) {
        if (progress && !progress(context, (uint64_t)i * pixels / 3, pixels / 3, all)) return false;
        vision_view(v, o, views->tiles + (size_t)i * pixels, plan->tile_side,
                    local + (size_t)i * tokens * (size_t)v->hidden, times);
    }
    if (progress && !progress(context, all - page, page, all)) return false;
    vision_view(v, o, views->global, plan->view_side, global, times);
    return true;
}

bool vision_image(const struct vision *v, struct ops *o, const struct dsocr_plan *plan,
                  const struct dsocr_views *views, float *rows, struct vision_times *times,
                  vision_progress *progress, void *context) {
    if (views->blank) return true;
    size_t hidden = (size_t)v->hidden, n = (size_t)plan->image_tokens; /* more rows than either part has */
    float *global = xmalloc(n * hidden * sizeof *global), *local = xmalloc(n * hidden * sizeof *local);
    struct dsocr_row *layout = xcalloc(n, sizeof *layout);
    bool done = run_views(v, o, plan, views, local, global, times, progress, context);
    dsocr_layout(plan, layout);
    for (size_t i = 0; done && i < n; i++)
        memcpy(rows + i * hidden, source_of(v, plan, &layout[i], global, local), hidden * sizeof *rows);
    free(global);
    free(local);
    free(layout);
    return done;
}
