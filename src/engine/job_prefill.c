/* Processes the prompts of a request: embeddings, images, the decoder's passes. */
#include "base/util.h"
#include "engine/job.h"

static void begin_work(struct job *j, const char *what, uint64_t done, uint64_t unit, uint64_t total) {
    j->progress.what = what;
    j->progress.done = (double)done;
    j->progress.unit = unit;
    j->progress.total = total;
    job_report_progress(j, what, done, total);
}

static void on_step(void *context, double part) {
    struct job *j = context;
    j->progress.done += part * (double)j->progress.unit;
    job_report_progress(j, j->progress.what, MIN((uint64_t)j->progress.done, j->progress.total - 1),
                        j->progress.total); /* less than the total, because the pass has not ended */
}

static bool on_view(void *context, uint64_t done, uint64_t next, uint64_t total) {
    begin_work(context, "vision", done, next, total);
    return !job_is_cancelled(context);
}

/* Splits the rows [at, at + rows) of the concatenated prompts into segments in j->rows, one for each sequence
 * that has rows there. Returns the number of segments. */
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
                                                .places = prompt_places(&j->v[i].prompt),
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
            if (!e->vision->encoder->encode(e->vision->state, e->ops, &p->images[k],
                                            view_at(x, (size_t)p->starts.v[k] * (size_t)d->hidden), &j->times,
                                            on_view, j))
                return false;
        first += p->ids.n;
    }
    return true;
}

/* Prefills all prompts, at most d->chunk rows at a time. Afterwards, row i of the logits belongs
 * to sequence i. Returns false if the request was cancelled. */
static bool run_prompts(struct job *j) {
    struct decoder *d = j->e->decoder;
    size_t complete = 0; /* complete prompts */
    if (!embed_prompts(j)) return false;
    for (size_t at = 0; at < j->tokens; at += (size_t)d->chunk) {
        size_t rows = MIN((size_t)d->chunk, j->tokens - at);
        begin_work(j, "prompt", at, rows, j->tokens);
        if (job_is_cancelled(j)) return false;
        struct decoder_pass pass = { j->rows, prompt_segments(j, at, rows) };
        decoder_forward_rows(d, view_at(view_of(j->x), at * (size_t)d->hidden), pass,
                             view_at(view_of(j->e->device_logits), complete * (size_t)d->vocab));
        for (int i = 0; i < pass.n; i++) complete += pass.v[i].logits;
    }
    ops_finish(j->e->ops);
    return true;
}

bool job_prefill(struct job *j, double *ms) {
    record_push(j->rec, RECORD_STAGES, "prefill", -1);
    for (int i = 0; i < j->n; i++) record_tokens(j->rec, j->v[i].request, (uint32_t)j->v[i].prompt.ids.n, 0);
    struct ops *o = j->e->ops;
    if (j->r->progress) {
        o->on_step = on_step;
        o->step_context = j;
    }
    uint64_t start = clock_mono_ns();
    decoder_experts_reset(j->e->decoder);
    decoder_forget_places(j->e->decoder);
    bool done = run_prompts(j);
    *ms = job_end_pass(j->e, start);
    if (j->e->vision) vision_times_take(o, &j->times);
    for (int i = 0; i < j->n; i++) j->v[i].out->prefill_experts = decoder_experts_used(j->e->decoder);
    o->on_step = NULL;
    record_pop(j->rec, RECORD_STAGES);
    return done;
}
