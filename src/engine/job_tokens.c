/* The tokens of a request: sampling rules, stops, text, times, progress. */
#include "base/util.h"
#include "base/vec.h"
#include "engine/job.h"

int job_ngram_size(const struct job *j) {
    int n = j->r->no_repeat_ngram;
    if (n == ENGINE_MODEL_NGRAM) n = j->e->vision ? j->e->vision->encoder->no_repeat_ngram : 0;
    return MAX(n, 0);
}

/* The tags of table cells may repeat. */
size_t job_allowed_cells(const struct job *j, uint32_t *cells) {
    static const char *const names[] = { "<td>", "</td>" };
    size_t n = 0;
    for (size_t i = 0; j->e->tokenizer && j->r->ngram_window && i < COUNTOF(names); i++)
        if ((cells[n] = tokenizer_find(j->e->tokenizer, names[i])) != TOKENIZER_NONE) n++;
    return n;
}

void job_make_samplers(struct job *j, struct sequence *s, uint64_t index) {
    const struct engine_request *r = j->r;
    struct engine *e = j->e;
    struct sampler_settings sampling = r->sampling;
    uint32_t cells[2];
    size_t ncells = job_allowed_cells(j, cells);
    sampling.seed += index; /* otherwise equal prompts of a batch would sample the same tokens */
    s->sampler = sampler_open(&sampling, (size_t)e->decoder->vocab);
    s->ngram = ngram_open(&(struct ngram_rule){
        .n = (uint32_t)job_ngram_size(j), .window = r->ngram_window, .allow = cells, .nallow = ncells });
    ngram_reserve(s->ngram, (size_t)e->decoder->max_context + 1);
    if (r->ngram_window == 0)
        for (size_t i = 0; i < s->prompt.ids.n; i++) ngram_push(s->ngram, s->prompt.ids.v[i]);
    if (e->tokenizer)
        token_stream_init(&s->stream, e->tokenizer,
                          e->vision && e->vision->encoder->keep_special ? TOKENIZER_KEEP_SPECIAL
                                                                        : TOKENIZER_SKIP_SPECIAL);
}

/* ---- progress */
bool job_is_cancelled(const struct job *j) { return j->r->wanted && !j->r->wanted(j->r->context); }

void job_report_progress(const struct job *j, const char *what, uint64_t done, uint64_t total) {
    if (j->r->progress) j->r->progress(j->r->context, what, done, total);
}

/* ---- tokens */
static uint32_t next_token(struct job *j, struct sequence *s, float *logits) {
    ngram_ban(s->ngram, logits, (size_t)j->e->decoder->vocab);
    uint32_t id = sampler_pick(s->sampler, logits);
    ngram_push(s->ngram, id);
    record_tokens(j->rec, s->request, 1, 1);
    return id;
}

void job_emit_text(const struct job *j, const struct sequence *s, size_t from) {
    if (j->r->on_text && s->out->text.len > from)
        j->r->on_text(j->r->context, s->out->text.buf + from, s->out->text.len - from);
}

static bool is_end_token(const struct engine *e, uint32_t id) {
    const struct llm_text *t = &e->model->text;
    for (uint32_t i = 0; i < t->neos; i++)
        if (t->eos_ids[i] == id) return true;
    return false;
}

void job_take_token(struct job *j, struct sequence *s, uint32_t id) {
    struct engine_result *out = s->out;
    size_t from = out->text.len;
    vec_push(&out->ids, id);
    bool ended = !j->r->ignore_eos && is_end_token(j->e, id);
    if (!ended && j->e->tokenizer) token_stream_next(&s->stream, id, &out->text);
    job_emit_text(j, s, from);
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

void job_sample_row(struct job *j, struct sequence *s, int row) {
    struct engine *e = j->e;
    size_t vocab = (size_t)e->decoder->vocab;
    ops_download(e->ops, e->logits, view_at(view_of(e->device_logits), (size_t)row * vocab), vocab);
    job_take_token(j, s, next_token(j, s, e->logits));
}

double job_end_pass(const struct engine *e, uint64_t start_ns) {
    if (e->slowdown > 1) {
        uint64_t until = start_ns + (uint64_t)((double)(clock_mono_ns() - start_ns) * e->slowdown);
        while (clock_mono_ns() < until) {}
    }
    return job_ms_since(start_ns);
}

void job_stamp_tokens(struct job *j, const bool *stepped, double ms) {
    size_t most = 0;
    for (int i = 0; i < j->n; i++) {
        struct engine_result *out = j->v[i].out;
        if (!stepped || stepped[i]) out->token_ms[out->ids.n - 1] = ms;
        most = MAX(most, out->ids.n);
    }
    job_report_progress(j, "tokens", most, j->r->max_new_tokens);
}
