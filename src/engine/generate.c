/* Serving a request: images and prompt, prefill, decode. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/internal.h"
#include "engine/sampling/ngram.h"

/* The state of a running request. */
struct job {
    struct engine *e;
    const struct engine_request *r;
    struct engine_result *out;
    struct token_ids ids;    /* the prompt */
    struct token_ids starts; /* first token of each image */
    struct dsocr_plan *plans;
    struct dsocr_views *views;
    struct tensor *x; /* [prompt, hidden] */
    struct sampler *sampler;
    struct ngram *ngram;
    struct recorder *rec;
    struct token_stream stream;
    struct vision_times times;
    struct { /* progress of the current work, in pixels of views or tokens of the prompt */
        const char *what;
        double done;
        uint64_t unit, total; /* unit: size of the current view or piece */
    } progress;
};

static double ms_since(uint64_t start_ns) { return (double)(clock_mono_ns() - start_ns) / 1e6; }

const char *engine_stop_name(enum engine_stop s) {
    return s == ENGINE_STOP_EOS ? "eos" : s == ENGINE_STOP_LENGTH ? "length" : "context";
}

/* ---- input */
static int load_images(struct job *j, struct err *err) {
    const struct dsocr_settings *mode = dsocr_mode(j->r->image_mode ? j->r->image_mode : "gundam", err);
    if (!mode) return -1;
    struct dsocr_settings settings = *mode;
    if (j->r->max_tiles > 0) settings.max_tiles = MAX(settings.min_tiles, j->r->max_tiles);
    j->plans = xcalloc(j->r->nimages, sizeof *j->plans);
    j->views = xcalloc(j->r->nimages, sizeof *j->views);
    for (size_t i = 0; i < j->r->nimages; i++) {
        struct image im;
        if (image_load(j->r->images[i], &im, err) < 0) return -1;
        dsocr_plan_make(&settings, im.width, im.height, &j->plans[i]);
        int rc = dsocr_views_make(&j->plans[i], &im, &j->views[i], err);
        image_free(&im);
        if (rc < 0) return err_wrap(err, "%s", j->r->images[i]);
        dsocr_drop_blank(&j->plans[i], &j->views[i]);
    }
    return 0;
}

static int ocr_prompt(struct job *j, struct err *err) {
    const struct engine_request *r = j->r;
    static const char usual[] = "<image>\n<|grounding|>Convert the document to markdown.", bare[] = "Hello";
    const char *given = r->prompt ? r->prompt : r->nimages ? usual : bare;
    size_t len = r->prompt ? r->prompt_len : strlen(given);
    struct strbuf text = STRBUF_INIT;
    if (r->nimages && !memmem(given, len, "<image>", 7))
        for (size_t i = 0; i < r->nimages; i++) strbuf_addstr(&text, "<image>\n");
    strbuf_add(&text, given, len);
    struct dsocr_prompt p = { .text = text.buf,
                              .len = text.len,
                              .bos_id = j->e->bos,
                              .image_id = j->e->image_token,
                              .plans = j->plans,
                              .nplans = r->nimages };
    int rc = dsocr_prompt_ids(j->e->tokenizer, &p, &j->ids, &j->starts, err);
    strbuf_free(&text);
    return rc;
}

static int text_prompt(struct job *j, struct err *err) {
    const char *given = j->r->prompt ? j->r->prompt : "Hello";
    size_t len = j->r->prompt ? j->r->prompt_len : strlen(given);
    if (tokenizer_encode(j->e->tokenizer, given, len, TOKENIZER_ADD_SPECIAL, &j->ids, err) < 0) return -1;
    if (j->ids.n == 0 && j->e->bos != TOKENIZER_NONE) vec_push(&j->ids, j->e->bos);
    return 0;
}

static int make_prompt(struct job *j, struct err *err) {
    const struct engine_request *r = j->r;
    if (r->nids) {
        if (r->nimages)
            return err_set(err, "prompt_ids cannot be combined with inputs: give a prompt instead");
        for (size_t i = 0; i < r->nids; i++) vec_push(&j->ids, r->ids[i]);
        return 0;
    }
    if (!j->e->tokenizer)
        return err_set(err, "%s has no tokenizer.json: give prompt_ids instead of a prompt", j->e->path);
    if (r->nimages && !j->e->vision)
        return err_set(err, "%s does not support images: leave inputs empty", j->e->path);
    if (r->nimages && load_images(j, err) < 0) return -1;
    if (r->nimages && j->e->image_token == TOKENIZER_NONE)
        return err_set(err, "%s: its tokenizer has no <image> token", j->e->path);
    return j->e->vision ? ocr_prompt(j, err) : text_prompt(j, err);
}

static int check_prompt(const struct job *j, struct err *err) {
    const struct decoder *d = j->e->decoder;
    if (j->ids.n == 0) return err_set(err, "the prompt is empty");
    if (j->ids.n > (size_t)d->max_context)
        return err_set(err,
                       "the prompt has %zu tokens, but the context only %d positions: shorten it, choose a "
                       "smaller image mode"
                       " or load with a larger max_context",
                       j->ids.n, d->max_context);
    for (size_t i = 0; i < j->ids.n; i++)
        if (j->ids.v[i] >= (uint32_t)d->vocab)
            return err_set(err, "token id %u at position %zu: the vocabulary has %d", j->ids.v[i], i,
                           d->vocab);
    return 0;
}

static void make_samplers(struct job *j) {
    const struct engine_request *r = j->r;
    struct engine *e = j->e;
    int n = r->no_repeat_ngram;
    if (n == ENGINE_MODEL_NGRAM) n = e->vision ? 20 : 0;
    j->sampler = sampler_open(&r->sampling, (size_t)e->decoder->vocab);
    uint32_t cells[2];
    size_t ncells = 0;
    static const char *const names[] = { "<td>", "</td>" };
    for (size_t i = 0; e->tokenizer && r->ngram_window && i < COUNTOF(names); i++)
        if ((cells[ncells] = tokenizer_find(e->tokenizer, names[i])) != TOKENIZER_NONE) ncells++;
    j->ngram = ngram_open(&(struct ngram_rule){
        .n = (uint32_t)MAX(n, 0), .window = r->ngram_window, .allow = cells, .nallow = ncells });
    ngram_reserve(j->ngram, (size_t)e->decoder->max_context + 1);
    if (r->ngram_window == 0)
        for (size_t i = 0; i < j->ids.n; i++) ngram_push(j->ngram, j->ids.v[i]);
}

/* ---- prefill and decode */
static bool is_cancelled(const struct job *j) { return j->r->wanted && !j->r->wanted(j->r->context); }

static void report_progress(const struct job *j, const char *what, uint64_t done, uint64_t total) {
    if (j->r->progress) j->r->progress(j->r->context, what, done, total);
}

static void begin_work(struct job *j, const char *what, uint64_t done, uint64_t unit, uint64_t total) {
    j->progress.what = what;
    j->progress.done = (double)done;
    j->progress.unit = unit;
    j->progress.total = total;
    report_progress(j, what, done, total);
}

static void on_step(void *context, double part) {
    struct job *j = context;
    j->progress.done += part * (double)j->progress.unit;
    report_progress(j, j->progress.what, MIN((uint64_t)j->progress.done, j->progress.total - 1),
                    j->progress.total); /* not yet done */
}

static bool on_view(void *context, uint64_t done, uint64_t next, uint64_t total) {
    begin_work(context, "vision", done, next, total);
    return !is_cancelled(context);
}

/* Computes e->logits of the last position. Returns false if the request was cancelled. */
static bool run_prompt(struct job *j) {
    struct engine *e = j->e;
    struct decoder *d = e->decoder;
    int n = (int)j->ids.n;
    decoder_embed(d, j->ids.v, n, view_of(j->x));
    for (size_t i = 0; i < j->r->nimages; i++)
        if (!vision_image(e->vision, e->ops, &j->plans[i], &j->views[i],
                          view_at(view_of(j->x), (size_t)j->starts.v[i] * (size_t)d->hidden), &j->times,
                          on_view, j))
            return false;
    for (int at = 0; at < n; at += DECODER_CHUNK) {
        int rows = MIN(DECODER_CHUNK, n - at);
        begin_work(j, "prompt", (uint64_t)at, (uint64_t)rows, (uint64_t)n);
        if (is_cancelled(j)) return false;
        decoder_forward(d, view_at(view_of(j->x), (size_t)at * (size_t)d->hidden), rows, at,
                        at + rows == n ? e->device_logits : NULL);
    }
    ops_download(e->ops, e->logits, view_of(e->device_logits), (size_t)d->vocab);
    return true;
}

static bool prefill(struct job *j) {
    record_push(j->rec, RECORD_STAGES, "prefill", -1);
    record_tokens(j->rec, j->e->requests, (uint32_t)j->ids.n, 0);
    struct ops *o = j->e->ops;
    if (j->r->progress) {
        o->on_step = on_step;
        o->step_context = j;
    }
    bool done = run_prompt(j);
    o->on_step = NULL;
    record_pop(j->rec, RECORD_STAGES);
    return done;
}

static uint32_t next_token(struct job *j) {
    struct engine *e = j->e;
    ngram_ban(j->ngram, e->logits, (size_t)e->decoder->vocab);
    uint32_t id = sampler_pick(j->sampler, e->logits);
    ngram_push(j->ngram, id);
    record_tokens(j->rec, e->requests, 1, 1);
    return id;
}

static void emit_text(struct job *j, size_t from) {
    if (j->r->on_text && j->out->text.len > from)
        j->r->on_text(j->r->context, j->out->text.buf + from, j->out->text.len - from);
}

static bool is_end_token(const struct engine *e, uint32_t id) {
    const struct llm_text *t = &e->model->text;
    for (uint32_t i = 0; i < t->neos; i++)
        if (t->eos_ids[i] == id) return true;
    return false;
}

/* Appends the token to the result. Returns false if it was the last. */
static bool take_token(struct job *j, uint32_t id, double ms) {
    struct engine_result *out = j->out;
    size_t from = out->text.len;
    out->token_ms[out->ids.n] = ms;
    vec_push(&out->ids, id);
    bool ended = !j->r->ignore_eos && is_end_token(j->e, id);
    if (!ended && j->e->tokenizer) token_stream_next(&j->stream, id, &out->text);
    emit_text(j, from);
    report_progress(j, "tokens", out->ids.n, j->r->max_new_tokens);
    if (ended)
        out->stop = ENGINE_STOP_EOS;
    else if (out->ids.n >= j->r->max_new_tokens)
        out->stop = ENGINE_STOP_LENGTH;
    else if (j->ids.n + out->ids.n > (size_t)j->e->decoder->max_context)
        out->stop = ENGINE_STOP_CONTEXT;
    else
        return true;
    return false;
}

/* Returns false if the request was cancelled. */
static bool decode(struct job *j) {
    struct engine *e = j->e;
    uint64_t start = clock_mono_ns(), step = start;
    record_push(j->rec, RECORD_STAGES, "decode", -1);
    bool more = true, cancelled = false;
    while (more && !cancelled) {
        int position = (int)(j->ids.n + j->out->ids.n) - 1;
        decoder_embed(e->decoder, &j->out->ids.v[j->out->ids.n - 1], 1, view_of(e->row));
        decoder_forward(e->decoder, view_of(e->row), 1, position, e->device_logits);
        ops_download(e->ops, e->logits, view_of(e->device_logits), (size_t)e->decoder->vocab);
        uint32_t id = next_token(j);
        uint64_t now = clock_mono_ns();
        more = take_token(j, id, (double)(now - step) / 1e6);
        step = now;
        cancelled = is_cancelled(j);
    }
    record_pop(j->rec, RECORD_STAGES);
    j->out->decode_ms = ms_since(start);
    return !cancelled || !more;
}

static void take_times(struct job *j) {
    if (!j->r->nimages) return;
    j->out->sam_ms = (double)j->times.sam_ns / 1e6;
    j->out->clip_ms = (double)j->times.clip_ns / 1e6;
    j->out->projector_ms = (double)j->times.projector_ns / 1e6;
}

static int generate(struct job *j, uint64_t request_ns, struct err *err) {
    uint64_t start = clock_mono_ns();
    if (!prefill(j)) return err_set(err, "cancelled during prefill: nobody reads the answer any more");
    j->out->prefill_ms = ms_since(start);
    uint32_t id = next_token(j);
    j->out->ttft_ms = ms_since(request_ns);
    take_times(j);
    if (take_token(j, id, ms_since(start)) && !decode(j))
        return err_set(err, "cancelled after %zu of %u tokens: nobody reads the answer any more",
                       j->out->ids.n, j->r->max_new_tokens);
    size_t from = j->out->text.len;
    if (j->e->tokenizer) token_stream_finish(&j->stream, &j->out->text);
    emit_text(j, from);
    return 0;
}

static int open_record(struct job *j, struct err *err) {
    const struct engine_request *r = j->r;
    if (r->detail == RECORD_NONE) return 0;
    struct record_info info = { .model = j->e->path,
                                .device = ops_name(j->e->ops),
                                .isa = ops_device(j->e->ops),
                                .units = ops_units(j->e->ops),
                                .no_shapes = r->no_shapes };
    j->rec = record_open(r->trace, r->detail, &info, err);
    j->e->ops->rec = j->rec;
    return j->rec ? 0 : -1;
}

static int close_record(struct job *j, struct err *err) {
    j->e->ops->rec = NULL;
    struct recorder *rec = j->rec;
    j->rec = NULL;
    return record_close(rec, err) < 0 ? err_wrap(err, "%s", j->r->trace) : 0;
}

static void job_free(struct job *j) {
    for (size_t i = 0; j->views && i < j->r->nimages; i++) dsocr_views_free(&j->views[i]);
    free(j->views);
    free(j->plans);
    free(j->ids.v);
    free(j->starts.v);
    ops_free(j->e->ops, j->x);
    sampler_close(j->sampler);
    ngram_close(j->ngram);
}

static void result_init(struct engine_result *out, uint32_t max_new, int max_context) {
    size_t room = MIN((size_t)max_new, (size_t)max_context + 1) + 1;
    *out = (struct engine_result){ .text = STRBUF_INIT, .sam_ms = NAN, .clip_ms = NAN, .projector_ms = NAN };
    out->token_ms = xcalloc(room, sizeof *out->token_ms);
    vec_reserve(&out->ids, room);
}

int engine_infer(struct engine *e, const struct engine_request *r, struct engine_result *out,
                 struct err *err) {
    struct job j = { .e = e, .r = r, .out = out };
    uint64_t start = clock_mono_ns();
    int rc = -1;
    result_init(out, r->max_new_tokens, e->decoder->max_context);
    if (r->max_new_tokens == 0) {
        err_set(err, "max_new_tokens must be at least 1");
        goto done;
    }
    if (make_prompt(&j, err) < 0 || check_prompt(&j, err) < 0) goto done;
    j.x = ops_alloc(e->ops, j.ids.n * (size_t)e->decoder->hidden, TENSOR_ANY);
    make_samplers(&j);
    if (e->tokenizer)
        token_stream_init(&j.stream, e->tokenizer,
                          e->vision ? TOKENIZER_KEEP_SPECIAL : TOKENIZER_SKIP_SPECIAL);
    out->prompt_tokens = j.ids.n;
    out->preprocess_ms = ms_since(start);
    if (open_record(&j, err) < 0) goto done;
    e->requests++;
    rc = generate(&j, start, err);
    struct err late; /* if the request failed already, its message stays */
    if (close_record(&j, rc < 0 ? &late : err) < 0) rc = -1;
done:
    job_free(&j);
    if (rc < 0) engine_result_free(out);
    return rc;
}

void engine_result_free(struct engine_result *r) {
    free(r->ids.v);
    free(r->token_ms);
    strbuf_free(&r->text);
    r->ids = (struct token_ids){ 0 };
    r->token_ms = NULL;
}
