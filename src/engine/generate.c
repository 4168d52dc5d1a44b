/* Serves a request: prefill and decode of one sequence, or of a batch of sequences together. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc_guard.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/job.h"
#include "engine/record/nvtx.h"

const char *engine_stop_name(enum engine_stop s) {
    return s == ENGINE_STOP_EOS ? "eos" : s == ENGINE_STOP_LENGTH ? "length" : "context";
}

static void take_times(struct job *j, double prefill_ms, double ttft_ms) {
    for (int i = 0; i < j->n; i++) {
        struct engine_result *out = j->v[i].out;
        out->prefill_ms = prefill_ms;
        out->ttft_ms = ttft_ms;
        if (!j->r->nimages) continue;
        out->nstages = vision_stages(j->e->vision, out->stage);
        for (size_t k = 0; k < out->nstages; k++) out->stage_ms[k] = (double)j->times.ns[k] / 1e6;
    }
}

static int generate(struct job *j, uint64_t request_ns, struct err *err) {
    uint64_t start = clock_mono_ns();
    double prefill_ms;
    if (!job_prefill(j, &prefill_ms))
        return err_set(err, "cancelled during prefill: the client no longer reads the answer");
    if (ops_check(j->e->ops, err) < 0) return -1;
    for (int i = 0; i < j->n; i++) job_sample_row(j, &j->v[i], i);
    take_times(j, prefill_ms, job_ms_since(request_ns));
    job_stamp_tokens(j, NULL, job_ms_since(start));
    if (job_any_more(j)) job_open_steps(j);
    if (ops_check(j->e->ops, err) < 0) return -1;
    if (job_any_more(j) && !job_decode(j))
        return err_set(err, "cancelled after %zu of %u tokens: the client no longer reads the answer",
                       j->v[0].out->ids.n, j->r->max_new_tokens);
    if (ops_check(j->e->ops, err) < 0) return -1;
    for (int i = 0; i < j->n; i++) {
        struct sequence *s = &j->v[i];
        size_t from = s->out->text.len;
        if (j->e->tokenizer) token_stream_finish(&s->stream, &s->out->text);
        job_emit_text(j, s, from);
    }
    return 0;
}

/* ---- requests */
static int open_record(struct job *j, struct err *err) {
    const struct engine_request *r = j->r;
    if (r->detail == RECORD_NONE) return 0;
    struct record_info info = { .model = j->e->path,
                                .device = ops_name(j->e->ops),
                                .uuid = ops_uuid(j->e->ops),
                                .isa = ops_device(j->e->ops),
                                .units = ops_units(j->e->ops),
                                .memory = r->memory,
                                .no_shapes = r->no_shapes };
    j->rec = record_open(r->trace, r->detail, &info, err);
    ops_record(j->e->ops, j->rec);
    return j->rec ? 0 : -1;
}

static int close_record(struct job *j, struct err *err) {
    ops_record(j->e->ops, NULL);
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
    free(j->times.spans.v);
    free(j->rows);
    free(j->ids);
    free(j->v);
}

static void result_init(struct engine_result *out, uint32_t max_new, int max_context) {
    size_t room = MIN((size_t)max_new, (size_t)max_context + 1) + 1;
    *out = (struct engine_result){ .text = STRBUF_INIT, .prefill_experts = NAN, .decode_experts = NAN };
    out->token_ms = xcalloc(room, sizeof *out->token_ms);
    vec_reserve(&out->ids, room);
}

static void reserve_rows(struct engine *e, int n) {
    ops_free(e->ops, e->device_logits);
    ops_free(e->ops, e->rows);
    e->device_logits = e->rows = NULL; /* keeps the engine consistent if an allocation below fails */
    e->batch = 0;
    e->device_logits = ops_alloc(e->ops, (size_t)n * (size_t)e->decoder->vocab, TENSOR_ZERO);
    e->rows = ops_alloc(e->ops, (size_t)n * (size_t)e->decoder->hidden, TENSOR_ZERO);
    e->batch = n;
}

/* Allocates memory for the sequences of the job: logits, rows of a step, and a cache for all positions
 * that they can reach. A single sequence gets the whole context, so that requests of different length can
 * use the same cache. */
static int reserve_batch(struct job *j, struct err *err) {
    struct engine *e = j->e;
    struct decoder *d = e->decoder;
    size_t positions = 0;
    for (int i = 0; i < j->n; i++) positions = MAX(positions, j->v[i].prompt.ids.n);
    positions = MIN(positions + j->r->max_new_tokens, (size_t)d->max_context);
    if (decoder_reserve(d, j->n, j->n == 1 ? d->max_context : (int)positions, err) < 0) return -1;
    if (j->n > e->batch) reserve_rows(e, j->n);
    if (ops_check(e->ops, err) == 0) return 0;
    decoder_release(d); /* parts of both may be missing */
    e->batch = 0;
    return -1;
}

/* Makes the inputs of all sequences. If the request is recorded, NVTX tools show this as the range
 * "tokenizer". */
static int make_prompts(struct job *j, struct err *err) {
    bool recorded = j->r->detail != RECORD_NONE;
    int rc = 0;
    if (recorded) {
        nvtx_attach();
        nvtx_push("tokenizer");
    }
    for (int i = 0; i < j->n && rc == 0; i++) rc = prompt_make(&j->v[i].prompt, j->e, j->r, (size_t)i, err);
    if (recorded) nvtx_pop();
    return rc;
}

static int prepare(struct job *j, struct err *err) {
    struct engine *e = j->e;
    if (j->r->max_new_tokens == 0) return err_set(err, "max_new_tokens must be at least 1");
    if (make_prompts(j, err) < 0) return -1;
    for (int i = 0; i < j->n; i++) {
        j->tokens += j->v[i].prompt.ids.n;
        j->v[i].out->prompt_tokens = j->v[i].prompt.ids.n;
    }
    if (reserve_batch(j, err) < 0) return -1;
    j->own_tensors = e->ops->live.n; /* tensors allocated so far belong to the engine */
    j->x = ops_alloc(e->ops, j->tokens * (size_t)e->decoder->hidden, TENSOR_ANY);
    for (int i = 0; i < j->n; i++) job_make_samplers(j, &j->v[i], (uint64_t)i);
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
    for (int i = 0; i < j->n; i++) j->v[i].out->preprocess_ms = job_ms_since(start);
    if (open_record(j, err) < 0) return -1;
    for (int i = 0; i < j->n; i++) j->v[i].request = ++j->e->requests;
    int rc = generate(j, start, err);
    struct err late; /* used instead of err if the request already failed: the first message is kept */
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

/* Ends a request that ran out of memory: frees its tensors and closes its record, so that the engine can
 * serve the next request, and sets err. */
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
    if (j.rc < 0) ops_recover(e->ops);
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
