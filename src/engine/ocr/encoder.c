#include "engine/ocr/encoder.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"

static void *open_encoder(const struct llm_model *m, int hidden, struct weights *w, struct err *err) {
    (void)err; /* every config of this family is supported */
    struct dsocr *v = xcalloc(1, sizeof *v);
    v->hidden = hidden;
    v->sam = sam_open(&m->vision, w);
    static const struct clip_names names = { "model.vision_model", "transformer.layers", .fused = true };
    v->clip = clip_open(&m->vision, &names, w);
    v->projector.w =
        weights_matrix(w, hidden, v->clip->width + v->sam->out_width, "model.projector.layers.weight");
    v->projector.bias = weights_vector(w, hidden, WEIGHTS_BIAS, "model.projector.layers.bias");
    v->newline = weights_vector(w, hidden, WEIGHTS_ROWS, "model.image_newline");
    /* the files contain this spelling */
    v->separator = weights_vector(w, hidden, WEIGHTS_ROWS, "model.view_seperator");
    return v;
}

static void close_encoder(void *state) {
    struct dsocr *v = state;
    sam_close(v->sam);
    clip_close(v->clip);
    free(v);
}

/* Computes out = projector([clip, sam]) row by row. */
static void project_features(const struct dsocr *v, struct ops *o, struct view clip, struct view sam, int n,
                             struct view out) {
    ptrdiff_t a = v->clip->width, b = v->sam->out_width;
    struct tensor *both = ops_alloc(o, (size_t)n * (size_t)(a + b), TENSOR_ANY);
    ops_copy_rows(o, view_of(both), a + b, clip, a, n, (size_t)a);
    ops_copy_rows(o, view_at(view_of(both), (size_t)a), a + b, sam, b, n, (size_t)b);
    ops_linear(o, "projector", &v->projector, view_of(both), a + b, n, out, v->hidden, OPS_SET);
    ops_free(o, both);
}

void dsocr_encode_views(const struct dsocr *v, struct ops *o, const struct dsocr_part *g, int groups,
                        struct view out, struct vision_times *times) {
    struct clip_part parts[DSOCR_MOST_PARTS];
    size_t first[DSOCR_MOST_PARTS], tokens = 0;
    for (int i = 0; i < groups; i++) {
        int n = sam_tokens(v->sam, g[i].side);
        parts[i] = (struct clip_part){ g[i].views, n };
        first[i] = tokens;
        tokens += (size_t)g[i].views * (size_t)n * (size_t)n;
    }
    struct tensor *sam = ops_alloc(o, tokens * (size_t)v->sam->out_width, TENSOR_ANY);
    struct tensor *clip = ops_alloc(o, tokens * (size_t)v->clip->width, TENSOR_ANY);
    struct vision_stage stage = vision_stage_begin(o, DSOCR_SAM, "sam");
    struct sam_part sams[DSOCR_MOST_PARTS];
    for (int i = 0; i < groups; i++)
        sams[i] = (struct sam_part){ g[i].pixels, g[i].views, g[i].side,
                                     view_at(view_of(sam), first[i] * (size_t)v->sam->out_width) };
    sam_forward(v->sam, o, sams, groups);
    vision_stage_end(o, stage, times);
    stage = vision_stage_begin(o, DSOCR_CLIP, "clip");
    clip_forward(v->clip, o, parts, groups, view_of(sam), view_of(clip), 1 - SAM_SHARE);
    vision_stage_end(o, stage, times);
    stage = vision_stage_begin(o, DSOCR_PROJECTOR, "projector");
    project_features(v, o, view_of(clip), view_of(sam), (int)tokens, out);
    vision_stage_end(o, stage, times);
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

/* Runs the encoder for all views: together if there are at most ops_backend.views views, otherwise one view
 * after the other. */
static bool run_views(const struct dsocr *v, struct ops *o, const struct dsocr_plan *plan,
                      const struct dsocr_views *views, const struct encoded *e, struct view rows,
                      struct vision_times *times, vision_progress *progress, void *context) {
    size_t pixels = (size_t)plan->tile_side * (size_t)plan->tile_side * 3, hidden = (size_t)v->hidden;
    int tiles = plan->grid_w * plan->grid_h;
    uint64_t page = (uint64_t)plan->view_side * (uint64_t)plan->view_side,
             all = (uint64_t)tiles * pixels / 3 + page;
    struct dsocr_part whole = { { views->global, views->global_bytes }, 1, plan->view_side };
    if (tiles < o->backend->views) {
        const struct dsocr_part both[] = { { { views->tiles, views->tiles_bytes }, tiles, plan->tile_side },
                                           whole };
        if (progress && !progress(context, 0, all, all)) return false;
        dsocr_encode_views(v, o, tiles ? both : &whole, tiles ? 2 : 1, rows, times);
        return true;
    }
    for (int i = 0; i < tiles; i++) {
        size_t at = (size_t)i * pixels;
        const struct dsocr_part tile = { { views->tiles ? views->tiles + at : NULL,
                                           views->tiles_bytes ? views->tiles_bytes + at : NULL },
                                         1,
                                         plan->tile_side };
        if (progress && !progress(context, (uint64_t)i * pixels / 3, pixels / 3, all)) return false;
        dsocr_encode_views(v, o, &tile, 1, view_at(rows, (size_t)i * e->tile_tokens * hidden), times);
    }
    if (progress && !progress(context, all - page, page, all)) return false;
    dsocr_encode_views(v, o, &whole, 1, view_at(rows, e->page * hidden), times);
    return true;
}

bool dsocr_encode_image(const struct dsocr *v, struct ops *o, const struct dsocr_plan *plan,
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

/* ---- the interface of vision.h */
struct prepared {
    struct dsocr_plan plan;
    struct dsocr_views views;
};

static void *host_alloc(void *context, size_t bytes) { return ops_host_alloc(context, bytes); }
static void host_free(void *context, void *p) { ops_host_free(context, p); }

static void free_prepared(void *data) {
    struct prepared *p = data;
    dsocr_views_free(&p->views);
    free(p);
}

/* Starts to copy the pixels to the device, so that the encoder does not wait for them. */
static void send_views(struct ops *o, const struct dsocr_plan *plan, const struct dsocr_views *views) {
    size_t tile = (size_t)plan->tile_side * (size_t)plan->tile_side * 3,
           page = (size_t)plan->view_side * (size_t)plan->view_side * 3;
    if (views->blank) return;
    ops_host_send(o, views->tiles_bytes, (size_t)(plan->grid_w * plan->grid_h) * tile);
    ops_host_send(o, views->global_bytes, page);
}

static int prepare(const void *state, struct ops *o, const struct vision_settings *s, const struct image *im,
                   struct vision_prepared *out, struct err *err) {
    (void)state;
    const struct dsocr_settings *mode = dsocr_mode(s->mode ? s->mode : "gundam", err);
    if (!mode) return -1;
    struct dsocr_settings settings = *mode;
    const struct dsocr_memory memory = { host_alloc, host_free, o,
                                         .bytes = o->backend->upload_bytes != NULL };
    if (dsocr_set_sizes(&settings, s->base_size, s->image_size, s->crop, err) < 0) return -1;
    if (s->max_tiles > 0) settings.max_tiles = MAX(settings.min_tiles, s->max_tiles);
    struct prepared *p = xcalloc(1, sizeof *p);
    *out = (struct vision_prepared){ .data = p, .free = free_prepared };
    dsocr_plan_make(&settings, im->width, im->height, &p->plan);
    if (dsocr_views_make(&p->plan, im, &memory, &p->views, err) < 0) return -1;
    dsocr_drop_blank(&p->plan, &p->views);
    send_views(o, &p->plan, &p->views);
    out->tokens = p->plan.image_tokens;
    return 0;
}

static int prompt(const struct vision *v, struct tokenizer *t, const struct vision_prompt *p,
                  struct token_ids *ids, struct token_ids *starts, struct err *err) {
    struct dsocr_prompt q = { .text = p->text, .len = p->len, .bos_id = p->bos_id, .nplans = p->nimages };
    q.image_id = tokenizer_find(t, VISION_MARK);
    if (p->nimages && q.image_id == TOKENIZER_NONE)
        return err_set(err, "%s: its tokenizer has no " VISION_MARK " token", v->model->name);
    struct dsocr_plan *plans = xcalloc(p->nimages + 1, sizeof *plans);
    for (size_t i = 0; i < p->nimages; i++) plans[i] = ((struct prepared *)p->images[i].data)->plan;
    q.plans = plans;
    int rc = dsocr_prompt_ids(t, &q, ids, starts, err);
    free(plans);
    return rc;
}

static bool encode(const void *state, struct ops *o, const struct vision_prepared *p, struct view rows,
                   struct vision_times *times, vision_progress *progress, void *context) {
    const struct prepared *q = p->data;
    return dsocr_encode_image(state, o, &q->plan, &q->views, rows, times, progress, context);
}

const struct vision_encoder dsocr_encoder = {
    .family = "deepseek_ocr",
    .stages = { "sam", "clip", "projector" },
    .usual_prompt = VISION_MARK "\n<|grounding|>Convert the document to markdown.",
    .no_repeat_ngram = 20,
    .keep_special = true,
    .any_device = true,
    .open = open_encoder,
    .close = close_encoder,
    .prepare = prepare,
    .prompt = prompt,
    .encode = encode,
};
