#include "engine/ocr/vision.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/util.h"

struct vision *vision_open(const struct llm_vision *c, int hidden, struct weights *w) {
    struct vision *v = xcalloc(1, sizeof *v);
    v->hidden = hidden;
    v->sam = sam_open(c, w);
    v->clip = clip_open(c, w);
    v->projector.w =
        weights_matrix(w, hidden, v->clip->width + v->sam->out_width, "model.projector.layers.weight");
    v->projector.bias = weights_vector(w, hidden, WEIGHTS_BIAS, "model.projector.layers.bias");
    v->newline = weights_vector(w, hidden, WEIGHTS_ROWS, "model.image_newline");
    /* the files contain this spelling */
    v->separator = weights_vector(w, hidden, WEIGHTS_ROWS, "model.view_seperator");
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

void vision_views(const struct vision *v, struct ops *o, const struct vision_group *g, int groups,
                  struct view out, struct vision_times *times) {
    struct clip_part parts[VISION_MOST_GROUPS];
    size_t first[VISION_MOST_GROUPS], tokens = 0;
    for (int i = 0; i < groups; i++) {
        int n = sam_tokens(v->sam, g[i].side);
        parts[i] = (struct clip_part){ g[i].views, n };
        first[i] = tokens;
        tokens += (size_t)g[i].views * (size_t)n * (size_t)n;
    }
    struct tensor *sam = ops_alloc(o, tokens * (size_t)v->sam->out_width, TENSOR_ANY);
    struct tensor *clip = ops_alloc(o, tokens * (size_t)v->clip->width, TENSOR_ANY);
    uint64_t t0 = clock_mono_ns();
    record_push(o->rec, RECORD_STAGES, "sam", -1);
    for (int i = 0; i < groups; i++)
        sam_forward(v->sam, o, g[i].pixels, g[i].views, g[i].side,
                    view_at(view_of(sam), first[i] * (size_t)v->sam->out_width));
    uint64_t t1 = stage_end(o);
    record_push(o->rec, RECORD_STAGES, "clip", -1);
    clip_forward(v->clip, o, parts, groups, view_of(sam), view_of(clip));
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

/* Layout of the encoder's output for all views: the rows of the tiles [tile][token], the rows of the whole
 * page, one row for line ends, one row for the end of the image. */
struct encoded {
    /* tile_tokens and page_tokens: rows per tile and per page. page: first row of the page. newline: row
     * for line ends */
    size_t tile_tokens, page_tokens, page, newline;
};

static struct encoded encoded_rows(const struct dsocr_plan *plan) {
    struct encoded e = { .tile_tokens = (size_t)plan->tile_tokens * (size_t)plan->tile_tokens,
                         .page_tokens = (size_t)plan->view_tokens * (size_t)plan->view_tokens };
    e.page = (size_t)(plan->grid_w * plan->grid_h) * e.tile_tokens;
    e.newline = e.page + e.page_tokens;
    return e;
}

static int row_source(const struct encoded *e, const struct dsocr_row *row) {
    switch (row->kind) {
    case DSOCR_ROW_TILE: return (int)((size_t)row->tile * e->tile_tokens) + row->token;
    case DSOCR_ROW_GLOBAL: return (int)e->page + row->token;
    case DSOCR_ROW_NEWLINE: return (int)e->newline;
    case DSOCR_ROW_SEPARATOR: break;
    }
    return (int)e->newline + 1;
}

/* Runs the encoder for all views: together if the device prefers that, otherwise one view after the other. */
static bool run_views(const struct vision *v, struct ops *o, const struct dsocr_plan *plan,
                      const struct dsocr_views *views, const struct encoded *e, struct view rows,
                      struct vision_times *times, vision_progress *progress, void *context) {
    size_t pixels = (size_t)plan->tile_side * (size_t)plan->tile_side * 3, hidden = (size_t)v->hidden;
    int tiles = plan->grid_w * plan->grid_h;
    uint64_t page = (uint64_t)plan->view_side * (uint64_t)plan->view_side,
             all = (uint64_t)tiles * pixels / 3 + page;
    struct vision_group whole = { { views->global, views->global_bytes }, 1, plan->view_side };
    if (tiles < o->backend->views) {
        const struct vision_group both[] = { { { views->tiles, views->tiles_bytes }, tiles, plan->tile_side },
                                             whole };
        if (progress && !progress(context, 0, all, all)) return false;
        vision_views(v, o, tiles ? both : &whole, tiles ? 2 : 1, rows, times);
        return true;
    }
    for (int i = 0; i < tiles; i++) {
        size_t at = (size_t)i * pixels;
        const struct vision_group tile = { { views->tiles ? views->tiles + at : NULL,
                                             views->tiles_bytes ? views->tiles_bytes + at : NULL },
                                           1,
                                           plan->tile_side };
        if (progress && !progress(context, (uint64_t)i * pixels / 3, pixels / 3, all)) return false;
        vision_views(v, o, &tile, 1, view_at(rows, (size_t)i * e->tile_tokens * hidden), times);
    }
    if (progress && !progress(context, all - page, page, all)) return false;
    vision_views(v, o, &whole, 1, view_at(rows, e->page * hidden), times);
    return true;
}

bool vision_image(const struct vision *v, struct ops *o, const struct dsocr_plan *plan,
                  const struct dsocr_views *views, struct view rows, struct vision_times *times,
                  vision_progress *progress, void *context) {
    if (views->blank) return true;
    size_t hidden = (size_t)v->hidden, n = (size_t)plan->image_tokens;
    struct encoded e = encoded_rows(plan);
    struct tensor *encoded = ops_alloc(o, (e.newline + 2) * hidden, TENSOR_ANY);
    struct view all = view_of(encoded);
    bool done = run_views(v, o, plan, views, &e, all, times, progress, context);
    ops_copy(o, view_at(all, e.newline * hidden), view_of(v->newline), hidden);
    ops_copy(o, view_at(all, (e.newline + 1) * hidden), view_of(v->separator), hidden);
    struct dsocr_row *layout = xcalloc(n, sizeof *layout);
    int *index = xcalloc(n, sizeof *index);
    dsocr_layout(plan, layout);
    for (size_t i = 0; i < n; i++) index[i] = row_source(&e, &layout[i]);
    if (done) ops_gather_rows(o, rows, all, index, (int)n, hidden);
    ops_free(o, encoded);
    free(index);
    free(layout);
    return done;
}
