#include "engine/ocr/vision.h"

#include <stdlib.h>

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
    v->separator = weights_vector(w, hidden, WEIGHTS_ROWS, "model.view_seperator"); /* sic, in the files */
    return v;
}

void vision_close(struct vision *v) {
    if (!v) return;
    sam_close(v->sam);
    clip_close(v->clip);
    free(v);
}

/* Computes out = projector([clip, sam]) row by row. */
static void project_features(const struct vision *v, struct ops *o, struct view clip, struct view sam, int n,
                             struct view out) {
    ptrdiff_t a = v->clip->width, b = v->sam->out_width;
    struct tensor *both = ops_alloc(o, (size_t)n * (size_t)(a + b), TENSOR_ANY);
    ops_copy_rows(o, view_of(both), a + b, clip, a, n, (size_t)a);
    ops_copy_rows(o, view_at(view_of(both), (size_t)a), a + b, sam, b, n, (size_t)b);
    ops_linear(o, "projector", &v->projector, view_of(both), a + b, n, out, v->hidden, OPS_SET);
    ops_free(o, both);
}

/* Ends a stage and returns the current time. */
static uint64_t stage_end(struct ops *o) {
    ops_finish(o);
    record_pop(o->rec, RECORD_STAGES);
    return clock_mono_ns();
}

void vision_view(const struct vision *v, struct ops *o, const float *pixels, int side, struct view out,
                 struct vision_times *times) {
    int n = sam_tokens(v->sam, side);
    size_t tokens = (size_t)n * (size_t)n;
    struct tensor *sam = ops_alloc(o, tokens * (size_t)v->sam->out_width, TENSOR_ANY);
    struct tensor *clip = ops_alloc(o, tokens * (size_t)v->clip->width, TENSOR_ANY);
    uint64_t t0 = clock_mono_ns();
    record_push(o->rec, RECORD_STAGES, "sam", -1);
    sam_forward(v->sam, o, pixels, side, view_of(sam));
    uint64_t t1 = stage_end(o);
    record_push(o->rec, RECORD_STAGES, "clip", -1);
    clip_forward(v->clip, o, view_of(sam), n, view_of(clip));
    uint64_t t2 = stage_end(o);
    record_push(o->rec, RECORD_STAGES, "projector", -1);
    project_features(v, o, view_of(clip), view_of(sam), (int)tokens, out);
    uint64_t t3 = stage_end(o);
    times->sam_ns += t1 - t0;
    times->clip_ns += t2 - t1;
    times->projector_ns += t3 - t2;
    ops_free(o, sam);
    ops_free(o, clip);
}

static struct view row_source(const struct vision *v, const struct dsocr_plan *plan,
                              const struct dsocr_row *row, struct view global, struct view tiles) {
    size_t tile_tokens = (size_t)plan->tile_tokens * (size_t)plan->tile_tokens, hidden = (size_t)v->hidden;
    switch (row->kind) {
    case DSOCR_ROW_TILE:
        return view_at(tiles, ((size_t)row->tile * tile_tokens + (size_t)row->token) * hidden);
    case DSOCR_ROW_GLOBAL: return view_at(global, (size_t)row->token * hidden);
    case DSOCR_ROW_NEWLINE: return view_of(v->newline);
    case DSOCR_ROW_SEPARATOR: break;
    }
    return view_of(v->separator);
}

/* Runs the encoder for every view: tiles into local[tile][token][hidden], the whole page into global. */
static bool run_views(const struct vision *v, struct ops *o, const struct dsocr_plan *plan,
                      const struct dsocr_views *views, struct view local, struct view global,
                      struct vision_times *times, vision_progress *progress, void *context) {
    size_t tokens = (size_t)(plan->tile_tokens * plan->tile_tokens);
    size_t pixels = (size_t)plan->tile_side * (size_t)plan->tile_side * 3;
    int tiles = plan->grid_w * plan->grid_h;
    uint64_t page = (uint64_t)plan->view_side * (uint64_t)plan->view_side,
             all = (uint64_t)tiles * pixels / 3 + page;
    for (int i = 0; i < tiles; i++) {
        if (progress && !progress(context, (uint64_t)i * pixels / 3, pixels / 3, all)) return false;
        vision_view(v, o, views->tiles + (size_t)i * pixels, plan->tile_side,
                    view_at(local, (size_t)i * tokens * (size_t)v->hidden), times);
    }
    if (progress && !progress(context, all - page, page, all)) return false;
    vision_view(v, o, views->global, plan->view_side, global, times);
    return true;
}

bool vision_image(const struct vision *v, struct ops *o, const struct dsocr_plan *plan,
                  const struct dsocr_views *views, struct view rows, struct vision_times *times,
                  vision_progress *progress, void *context) {
    if (views->blank) return true;
    /* enough rows for either part */
    size_t hidden = (size_t)v->hidden, n = (size_t)plan->image_tokens;
    struct tensor *global = ops_alloc(o, n * hidden, TENSOR_ANY);
    struct tensor *local = ops_alloc(o, n * hidden, TENSOR_ANY);
    bool done = run_views(v, o, plan, views, view_of(local), view_of(global), times, progress, context);
    struct dsocr_row *layout = xcalloc(n, sizeof *layout);
    dsocr_layout(plan, layout);
    for (size_t i = 0; done && i < n; i++)
        ops_copy(o, view_at(rows, i * hidden),
                 row_source(v, plan, &layout[i], view_of(global), view_of(local)), hidden);
    ops_free(o, global);
    ops_free(o, local);
    free(layout);
    return done;
}
