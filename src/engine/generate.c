/* Serves a request: prefill and decode of one sequence, or of a batch of sequences together. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/alloc_guard.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/decoder/steps.h"
#include "engine/internal.h"
#include "engine/prompt.h"
#include "engine/sampling/ngram.h"

/* One sequence of a running request. */
struct sequence {
    struct prompt prompt;
    struct engine_result *out;
    struct sampler *sampler;
    struct ngram *ngram;
    struct token_stream stream;
    uint64_t request; /* number of the request in the trace */
    bool more;        /* not yet stopped */
};

/* The state of a running request. */
struct job {
    struct engine *e;
    const struct engine_request *r;
    struct engine_result *out; /* [n] */
    struct sequence *v;        /* [n] */
    int n;
    size_t tokens;             /* of all prompts */
    struct tensor *x;          /* [tokens, hidden] */
    struct decoder_rows *rows; /* [n]: the segments of the next pass */
    uint32_t *ids;             /* [n]: the tokens of the next step */
    struct recorder *rec;
    struct vision_times times;
    /* number of tensors that belong to the engine; later ones belong to the request. 0: not known yet */
    size_t own_tensors;
    struct err *err;
    int rc;
    struct { /* progress of the current work, in pixels of views or tokens of the prompt */
        const char *what;
        double done;
        uint64_t unit, total; /* unit: size of the current view or part */
    } progress;
};

static double ms_since(uint64_t start_ns) { return (double)(clock_mono_ns() - start_ns) / 1e6; }

const char *engine_stop_name(enum engine_stop s) {
    return s == ENGINE_STOP_EOS ? "eos" : s == ENGINE_STOP_LENGTH ? "length" : "context";
}

static int ngram_size(const struct job *j) {
    int n = j->r->no_repeat_ngram;
    if (n == ENGINE_MODEL_NGRAM) n = j->e->vision ? 20 : 0;
    return MAX(n, 0);
}

/* The rule with a window does not ban table cells, because they may repeat. */
static size_t allowed_cells(const struct job *j, uint32_t *cells) {
    static const char *const names[] = { "<td>", "</td>" };
    size_t n = 0;
    for (size_t i = 0; j->e->tokenizer && j->r->ngram_window && i < COUNTOF(names); i++)
        if ((cells[n] = tokenizer_find(j->e->tokenizer, names[i])) != TOKENIZER_NONE) n++;
    return n;
}

static void make_samplers(struct job *j, struct sequence *s, uint64_t index) {
    const struct engine_request *r = j->r;
    struct engine *e = j->e;
    struct sampler_settings sampling = r->sampling;
    uint32_t cells[2];
    size_t ncells = allowed_cells(j, cells);
    sampling.seed += index; /* otherwise equal prompts of a batch would sample the same tokens */
    s->sampler = sampler_open(&sampling, (size_t)e->decoder->vocab);
    s->ngram = ngram_open(&(struct ngram_rule){
        .n = (uint32_t)ngram_size(j), .window = r->ngram_window, .allow = cells, .nallow = ncells });
    ngram_reserve(s->ngram, (size_t)e->decoder->max_context + 1);
    if (r->ngram_window == 0)
        for (size_t i = 0; i < s->prompt.ids.n; i++) ngram_push(s->ngram, s->prompt.ids.v[i]);
    if (e->tokenizer)
        token_stream_init(&s->stream, e->tokenizer,
                          e->vision ? TOKENIZER_KEEP_SPECIAL : TOKENIZER_SKIP_SPECIAL);
}

/* ---- progress */
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

/* ---- tokens */
static uint32_t next_token(struct job *j, struct sequence *s, float *logits) {
    ngram_ban(s->ngram, logits, (size_t)j->e->decoder->vocab);
    uint32_t id = sampler_pick(s->sampler, logits);
    ngram_push(s->ngram, id);
    record_tokens(j->rec, s->request, 1, 1);
    return id;
}

static void emit_text(const struct job *j, const struct sequence *s, size_t from) {
    if (j->r->on_text && s->out->text.len > from)
        j->r->on_text(j->r->context, s->out->text.buf + from, s->out->text.len - from);
}

static bool is_end_token(const struct engine *e, uint32_t id) {
    const struct llm_text *t = &e->model->text;
    for (uint32_t i = 0; i < t->neos; i++)
        if (t->eos_ids[i] == id) return true;
    return false;
}

/* Appends the token to the result of its sequence. */
static void take_token(struct job *j, struct sequence *s, uint32_t id) {
    struct engine_result *out = s->out;
    size_t from = out->text.len;
    vec_push(&out->ids, id);
    bool ended = !j->r->ignore_eos && is_end_token(j->e, id);
    if (!ended && j->e->tokenizer) token_stream_next(&s->stream, id, &out->text);
    emit_text(j, s, from);
    s->more = false;
    if (ended)
        out->stop = ENGINE_STOP_EOS;
    else if (out->ids.n >= j->r->max_new_tokens)
        out->stop = ENGINE_STOP_LENGTH;
    else if (s->prompt.ids.n + out->ids.n > (size_t)j->e->decoder->positions)
        out->stop = ENGINE_STOP_CONTEXT;
    else
        s->more = true;
}

/* Downloads one row of logits and picks the sequence's next token. */
static void sample_row(struct job *j, struct sequence *s, int row) {
    struct engine *e = j->e;
    size_t vocab = (size_t)e->decoder->vocab;
    ops_download(e->ops, e->logits, view_at(view_of(e->device_logits), (size_t)row * vocab), vocab);
    take_token(j, s, next_token(j, s, e->logits));
}

/* Ends a pass that began at start_ns and returns its time. With a slowdown, waits until it has taken that
 * many times as long: tests of `compare` need a known slowdown. */
static double end_pass(const struct engine *e, uint64_t start_ns) {
    if (e->slowdown > 1) {
        uint64_t until = start_ns + (uint64_t)((double)(clock_mono_ns() - start_ns) * e->slowdown);
        while (clock_mono_ns() < until) {}
    }
    return ms_since(start_ns);
}

/* Sets the time of a step's tokens. stepped[n]: sequences with a new token; NULL: all of them. */
static void stamp_tokens(struct job *j, const bool *stepped, double ms) {
    size_t most = 0;
    for (int i = 0; i < j->n; i++) {
        struct engine_result *out = j->v[i].out;
        if (!stepped || stepped[i]) out->token_ms[out->ids.n - 1] = ms;
        most = MAX(most, out->ids.n);
    }
    report_progress(j, "tokens", most, j->r->max_new_tokens);
}

/* ---- prefill */

/* Converts the rows [at, at + rows) of all prompts, in order, to segments. Returns the number of segments. */
static int prompt_segments(struct job *j, size_t at, size_t rows) {
    size_t first = 0;
    int n = 0;
    for (int i = 0; i < j->n; i++) {
        size_t len = j->v[i].prompt.ids.n, from = MAX(at, first), to = MIN(at + rows, first + len);
        if (from < to) {
            j->rows[n] = (struct decoder_rows){ .sequence = i,
                                                .position = (int)(from - first),
                                                .n = (int)(to - from),
                                                .length = (int)len,
                                                .logits = to == first + len };
            n++;
        }
        first += len;
    }
    return n;
}

static bool embed_prompts(struct job *j) {
    struct engine *e = j->e;
    struct decoder *d = e->decoder;
    size_t first = 0;
    for (int i = 0; i < j->n; i++) {
        const struct prompt *p = &j->v[i].prompt;
        struct view x = view_at(view_of(j->x), first * (size_t)d->hidden);
        decoder_embed(d, p->ids.v, (int)p->ids.n, x);
        for (size_t k = 0; k < j->r->nimages; k++)
            if (!vision_image(e->vision, e->ops, &p->plans[k], &p->views[k],
                              view_at(x, (size_t)p->starts.v[k] * (size_t)d->hidden), &j->times, on_view, j))
                return false;
        first += p->ids.n;
    }
    return true;
}

/* Prefills all prompts, as many rows at a time as the decoder takes. Afterwards, row i of the logits belongs
 * to sequence i. Returns false if the request was cancelled. */
static bool run_prompts(struct job *j) {
    struct decoder *d = j->e->decoder;
    size_t complete = 0; /* prompts */
    if (!embed_prompts(j)) return false;
    for (size_t at = 0; at < j->tokens; at += (size_t)d->chunk) {
        size_t rows = MIN((size_t)d->chunk, j->tokens - at);
        begin_work(j, "prompt", at, rows, j->tokens);
        if (is_cancelled(j)) return false;
        struct decoder_pass pass = { j->rows, prompt_segments(j, at, rows) };
        decoder_forward_rows(d, view_at(view_of(j->x), at * (size_t)d->hidden), pass,
                             view_at(view_of(j->e->device_logits), complete * (size_t)d->vocab));
        for (int i = 0; i < pass.n; i++) complete += pass.v[i].logits;
    }
    ops_finish(j->e->ops);
    return true;
}

static bool prefill(struct job *j, double *ms) {
    record_push(j->rec, RECORD_STAGES, "prefill", -1);
    for (int i = 0; i < j->n; i++) record_tokens(j->rec, j->v[i].request, (uint32_t)j->v[i].prompt.ids.n, 0);
    struct ops *o = j->e->ops;
    if (j->r->progress) {
        o->on_step = on_step;
        o->step_context = j;
    }
    uint64_t start = clock_mono_ns();
    decoder_experts_reset(j->e->decoder);
    bool done = run_prompts(j);
    *ms = end_pass(j->e, start);
    for (int i = 0; i < j->n; i++) j->v[i].out->prefill_experts = decoder_experts_used(j->e->decoder);
    o->on_step = NULL;
    record_pop(j->rec, RECORD_STAGES);
    return done;
}

/* ---- decode */

/* Decodes one token of every sequence that has not stopped. */
static void decode_step(struct job *j, bool *stepped) {
    struct engine *e = j->e;
    uint64_t start = clock_mono_ns();
    int n = 0;
    for (int i = 0; i < j->n; i++) {
        const struct sequence *s = &j->v[i];
        stepped[i] = s->more;
        if (!s->more) continue;
        j->ids[n] = s->out->ids.v[s->out->ids.n - 1];
        j->rows[n] = (struct decoder_rows){
            .sequence = i, .position = (int)(s->prompt.ids.n + s->out->ids.n) - 1, .n = 1, .logits = true
        };
        n++;
    }
    decoder_embed(e->decoder, j->ids, n, view_of(e->rows));
    decoder_forward_rows(e->decoder, view_of(e->rows), (struct decoder_pass){ j->rows, n },
                         view_of(e->device_logits));
    for (int i = 0; i < n; i++) sample_row(j, &j->v[j->rows[i].sequence], i);
    stamp_tokens(j, stepped, end_pass(e, start));
}

static bool any_more(const struct job *j) {
    for (int i = 0; i < j->n; i++)
        if (j->v[i].more) return true;
    return false;
}

/* Returns false if the request was cancelled. */
static bool decode(struct job *j) {
    bool *stepped = xcalloc((size_t)j->n, sizeof *stepped), cancelled = false;
    uint64_t start = clock_mono_ns();
    record_push(j->rec, RECORD_STAGES, "decode", -1);
    double experts = 0, steps = 0;
    while (any_more(j) && !cancelled) {
        decoder_experts_reset(j->e->decoder);
        decode_step(j, stepped);
        experts += decoder_experts_used(j->e->decoder);
        steps++;
        cancelled = is_cancelled(j);
    }
    record_pop(j->rec, RECORD_STAGES);
    for (int i = 0; i < j->n; i++) j->v[i].out->decode_ms = ms_since(start);
    for (int i = 0; i < j->n; i++) j->v[i].out->decode_experts = experts / steps;
    free(stepped);
    return !cancelled || !any_more(j);
}

/* ---- decoding steps on the device: one sequence, greedy sampling, no records of single operators */
static bool has_steps(const struct job *j) {
    return j->e->steps && j->n == 1 && !(j->r->sampling.temperature > 0) && j->r->detail < RECORD_OPERATORS;
}

static void begin_steps(struct job *j) {
    const struct sequence *s = &j->v[0];
    struct token_ids all = { 0 };
    uint32_t allow[DECODE_MOST_ALLOWED];
    for (size_t i = 0; i < s->prompt.ids.n; i++) vec_push(&all, s->prompt.ids.v[i]);
    vec_push(&all, s->out->ids.v[0]);
    decoder_steps_begin(j->e->steps,
                        &(struct decode_start){ .ids = all.v,
                                                .n = (int)all.n,
                                                .no_repeat = ngram_size(j),
                                                .window = (int)MIN(j->r->ngram_window, (uint32_t)INT32_MAX),
                                                .first = j->r->ngram_window ? (int)s->prompt.ids.n : 0,
                                                .allow = allow,
                                                .nallow = (int)allowed_cells(j, allow) });
    free(all.v);
}

/* The device runs at most STEPS_AHEAD steps ahead of the host. Steps after the last token are discarded.
 * Returns false if the request was cancelled. */
static bool decode_on_device(struct job *j) {
    enum { STEPS_AHEAD = 4 };
    struct sequence *s = &j->v[0];
    uint64_t start = clock_mono_ns(), step = start;
    size_t room = (size_t)j->e->decoder->positions + 1 - s->prompt.ids.n, submitted = 1;
    size_t most = MIN((size_t)j->r->max_new_tokens, room);
    bool cancelled = false;
    uint32_t id;
    record_push(j->rec, RECORD_STAGES, "decode", -1);
    begin_steps(j);
    while (s->more && !cancelled) {
        for (; submitted < most && submitted < s->out->ids.n + STEPS_AHEAD; submitted++)
            decoder_steps_submit(j->e->steps, 1);
        if (!decoder_steps_take(j->e->steps, &id)) break; /* generate() reports why */
        record_tokens(j->rec, s->request, 1, 1);
        take_token(j, s, id);
        stamp_tokens(j, NULL, end_pass(j->e, step));
        step = clock_mono_ns();
        cancelled = is_cancelled(j);
    }
    record_pop(j->rec, RECORD_STAGES);
    s->out->decode_ms = ms_since(start);
    return !cancelled || !s->more;
}

static void take_times(struct job *j, double prefill_ms, double ttft_ms) {
    for (int i = 0; i < j->n; i++) {
        struct engine_result *out = j->v[i].out;
        out->prefill_ms = prefill_ms;
        out->ttft_ms = ttft_ms;
        if (!j->r->nimages) continue;
        out->sam_ms = (double)j->times.sam_ns / 1e6;
        out->clip_ms = (double)j->times.clip_ns / 1e6;
        out->projector_ms = (double)j->times.projector_ns / 1e6;
    }
}

static int generate(struct job *j, uint64_t request_ns, struct err *err) {
    uint64_t start = clock_mono_ns();
    double prefill_ms;
    if (!prefill(j, &prefill_ms))
        return err_set(err, "cancelled during prefill: the client no longer reads the answer");
    for (int i = 0; i < j->n; i++) sample_row(j, &j->v[i], i);
    take_times(j, prefill_ms, ms_since(request_ns));
    stamp_tokens(j, NULL, ms_since(start));
    if (ops_check(j->e->ops, err) < 0) return -1;
    if (any_more(j) && !(has_steps(j) ? decode_on_device(j) : decode(j)))
        return err_set(err, "cancelled after %zu of %u tokens: the client no longer reads the answer",
                       j->v[0].out->ids.n, j->r->max_new_tokens);
    if (ops_check(j->e->ops, err) < 0) return -1;
    for (int i = 0; i < j->n; i++) {
        struct sequence *s = &j->v[i];
        size_t from = s->out->text.len;
        if (j->e->tokenizer) token_stream_finish(&s->stream, &s->out->text);
        emit_text(j, s, from);
    }
    return 0;
}

/* ---- requests */
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
    for (int i = 0; j->v && i < j->n; i++) {
        prompt_free(&j->v[i].prompt);
        sampler_close(j->v[i].sampler);
        ngram_close(j->v[i].ngram);
    }
    ops_free(j->e->ops, j->x);
    free(j->rows);
    free(j->ids);
    free(j->v);
}

static void result_init(struct engine_result *out, uint32_t max_new, int max_context) {
    size_t room = MIN((size_t)max_new, (size_t)max_context + 1) + 1;
    *out = (struct engine_result){ .text = STRBUF_INIT,
                                   .sam_ms = NAN,
                                   .clip_ms = NAN,
                                   .projector_ms = NAN,
                                   .prefill_experts = NAN,
                                   .decode_experts = NAN };
    out->token_ms = xcalloc(room, sizeof *out->token_ms);
    vec_reserve(&out->ids, room);
}

/* Allocates memory for n sequences: logits, rows of a step, and a cache with the positions that they can
 * reach. A single sequence gets the whole context, so that requests of different length can use the same
 * cache. */
static int reserve_batch(struct job *j, struct err *err) {
    struct engine *e = j->e;
    struct decoder *d = e->decoder;
    size_t n = (size_t)j->n, positions = 0;
    for (int i = 0; i < j->n; i++) positions = MAX(positions, j->v[i].prompt.ids.n);
    positions = MIN(positions + j->r->max_new_tokens, (size_t)d->max_context);
    if (decoder_reserve(d, j->n, j->n == 1 ? d->max_context : (int)positions, err) < 0) return -1;
    if (j->n <= e->batch) return 0;
    ops_free(e->ops, e->device_logits);
    ops_free(e->ops, e->rows);
    e->device_logits = e->rows = NULL; /* if memory runs out here */
    e->batch = 0;
    e->device_logits = ops_alloc(e->ops, n * (size_t)d->vocab, TENSOR_ZERO);
    e->rows = ops_alloc(e->ops, n * (size_t)d->hidden, TENSOR_ZERO);
    e->batch = j->n;
    return 0;
}

static int prepare(struct job *j, struct err *err) {
    struct engine *e = j->e;
    if (j->r->max_new_tokens == 0) return err_set(err, "max_new_tokens must be at least 1");
    for (int i = 0; i < j->n; i++)
        if (prompt_make(&j->v[i].prompt, e, j->r, (size_t)i, err) < 0) return -1;
    for (int i = 0; i < j->n; i++) {
        j->tokens += j->v[i].prompt.ids.n;
        j->v[i].out->prompt_tokens = j->v[i].prompt.ids.n;
    }
    if (reserve_batch(j, err) < 0) return -1;
    j->own_tensors = e->ops->live.n; /* tensors allocated so far belong to the engine */
    j->x = ops_alloc(e->ops, j->tokens * (size_t)e->decoder->hidden, TENSOR_ANY);
    for (int i = 0; i < j->n; i++) make_samplers(j, &j->v[i], (uint64_t)i);
    return 0;
}

static void init_sequences(struct job *j, struct engine_result *out) {
    size_t n = (size_t)j->n;
    j->v = xcalloc(n, sizeof *j->v);
    j->rows = xcalloc(n, sizeof *j->rows);
    j->ids = xcalloc(n, sizeof *j->ids);
    for (size_t i = 0; i < n; i++) {
        j->v[i].out = &out[i];
        j->v[i].prompt.r = j->r;
        result_init(&out[i], j->r->max_new_tokens, j->e->decoder->max_context);
    }
}

static int serve(struct job *j, struct err *err) {
    uint64_t start = clock_mono_ns();
    init_sequences(j, j->out);
    if (prepare(j, err) < 0) return -1;
    for (int i = 0; i < j->n; i++) j->v[i].out->preprocess_ms = ms_since(start);
    if (open_record(j, err) < 0) return -1;
    for (int i = 0; i < j->n; i++) j->v[i].request = ++j->e->requests;
    int rc = generate(j, start, err);
    struct err late; /* keeps the first message if the request has already failed */
    return close_record(j, rc < 0 ? &late : err) < 0 ? -1 : rc;
}

static void guarded_serve(void *context) {
    struct job *j = context;
    j->rc = serve(j, j->err);
}

static void guarded_close(void *context) {
    struct err ignored;
    close_record(context, &ignored);
}

/* Restores the state before the request, so that the engine can serve the next one. */
static int out_of_memory(struct job *j, size_t bytes) {
    struct ops *o = j->e->ops;
    size_t again;
    o->on_step = NULL;
    if (j->own_tensors) ops_free_since(o, j->own_tensors);
    j->x = NULL;
    alloc_guard_run(guarded_close, j, &again);
    o->rec = NULL;
    return err_set(
        j->err,
        "out of memory, %zu bytes could not be allocated: use a smaller batch, a shorter prompt or "
        "a smaller image mode",
        bytes);
}

int engine_infer(struct engine *e, const struct engine_request *r, struct engine_result *out,
                 struct err *err) {
    size_t n = MAX(r->nbatch, (size_t)1), bytes;
    if (n > ENGINE_MAX_BATCH)
        return err_set(err, "a batch of %zu sequences: this engine runs at most %d", n, ENGINE_MAX_BATCH);
    struct job j = { .e = e, .r = r, .out = out, .n = (int)n, .err = err };
    for (size_t i = 0; i < n; i++) out[i] = (struct engine_result){ .text = STRBUF_INIT };
    if (!alloc_guard_run(guarded_serve, &j, &bytes)) j.rc = out_of_memory(&j, bytes);
    job_free(&j);
    for (size_t i = 0; j.rc < 0 && i < n; i++) engine_result_free(&out[i]);
    return j.rc;
}

void engine_result_free(struct engine_result *r) {
    free(r->ids.v);
    free(r->token_ms);
    strbuf_free(&r->text);
    r->ids = (struct token_ids){ 0 };
    r->token_ms = NULL;
}
