/* Decodes the answers of a request: by calling operators, or with steps that run entirely on the device. */
#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/decoder/steps.h"
#include "engine/job.h"

/* Decodes one token of every sequence that has not stopped. stepped[i]: true if sequence i got a token.
 * Returns false if the device failed: generate() reports the error. */
static bool decode_step(struct job *j, bool *stepped) {
    struct engine *e = j->e;
    struct err reported_later;
    uint64_t start = clock_mono_ns();
    int n = 0;
    for (int i = 0; i < j->n; i++) {
        const struct sequence *s = &j->v[i];
        stepped[i] = s->more;
        if (!s->more) continue;
        j->ids[n] = s->out->ids.v[s->out->ids.n - 1];
        j->rows[n] = (struct decoder_rows){ .sequence = i,
                                            .position = (int)(s->prompt.ids.n + s->out->ids.n) - 1,
                                            .n = 1,
                                            .logits = true,
                                            .places = prompt_places(&s->prompt) };
        n++;
    }
    decoder_embed(e->decoder, j->ids, n, view_of(e->rows));
    decoder_forward_rows(e->decoder, view_of(e->rows), (struct decoder_pass){ j->rows, n },
                         view_of(e->device_logits));
    if (ops_check(e->ops, &reported_later) < 0) return false;
    for (int i = 0; i < n; i++) job_sample_row(j, &j->v[j->rows[i].sequence], i);
    job_stamp_tokens(j, stepped, job_end_pass(e, start));
    return true;
}

bool job_any_more(const struct job *j) {
    for (int i = 0; i < j->n; i++)
        if (j->v[i].more) return true;
    return false;
}

/* Returns false if the request was cancelled before it was complete. */
static bool decode_by_operators(struct job *j) {
    bool *stepped = xcalloc((size_t)j->n, sizeof *stepped), cancelled = false;
    uint64_t start = clock_mono_ns();
    record_push(j->rec, RECORD_STAGES, "decode", -1);
    double experts = 0, steps = 0;
    while (job_any_more(j) && !cancelled) {
        decoder_experts_reset(j->e->decoder);
        if (!decode_step(j, stepped)) break;
        experts += decoder_experts_used(j->e->decoder);
        steps++;
        cancelled = job_is_cancelled(j);
    }
    record_pop(j->rec, RECORD_STAGES);
    for (int i = 0; i < j->n; i++) j->v[i].out->decode_ms = job_ms_since(start);
    for (int i = 0; i < j->n; i++) j->v[i].out->decode_experts = experts / steps;
    free(stepped);
    return !cancelled || !job_any_more(j);
}

/* ---- decoding steps on the device: only for one sequence with greedy sampling */
static bool has_steps(const struct job *j) {
    return j->e->steps && j->n == 1 && !(j->r->sampling.temperature > 0);
}

/* Records the parts of all steps, of one sequence or of a batch, which ran between the two times. */
static void record_spans(const struct job *j, bool batch, uint64_t from_ns, uint64_t to_ns) {
    struct decode_span *v = NULL;
    size_t lost = 0;
    if (!record_op_start(j->rec)) return;
    size_t n = batch ? decoder_batch_spans(j->e->batch_steps, &v) : decoder_steps_spans(j->e->steps, &v);
    for (size_t i = 0; i < n; i++) {
        if (!v[i].end_ns) {
            lost++;
            continue;
        }
        uint64_t start = MIN(MAX(v[i].start_ns, from_ns), to_ns), end = MIN(MAX(v[i].end_ns, start), to_ns);
        record_op_ns(
            j->rec, start, end,
            &(struct record_op){
                .name = v[i].name, .kernel = v[i].kernel, .type = v[i].type, .flops = NAN, .bytes = NAN });
    }
    record_lost_ops(j->rec, lost);
    free(v);
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
                                                .no_repeat = job_ngram_size(j),
                                                .window = (int)MIN(j->r->ngram_window, (uint32_t)INT32_MAX),
                                                .first = j->r->ngram_window ? (int)s->prompt.ids.n : 0,
                                                .allow = allow,
                                                .nallow = (int)job_allowed_cells(j, allow) });
    free(all.v);
}

/* The device runs some steps ahead of the host. Steps after the last token are discarded. Returns false if
 * the request was cancelled before it was complete. */
static bool decode_on_device(struct job *j) {
    enum { PORTIONS_AHEAD = 4 };
    struct sequence *s = &j->v[0];
    uint64_t start = clock_mono_ns(), wall = clock_wall_ns(), step = start;
    size_t room = (size_t)j->e->decoder->positions + 1 - s->prompt.ids.n, submitted = 1;
    size_t most = MIN((size_t)j->r->max_new_tokens, room);
    bool cancelled = false;
    uint32_t id;
    record_push(j->rec, RECORD_STAGES, "decode", -1);
    begin_steps(j);
    size_t portion = (size_t)decoder_steps_portion(j->e->steps);
    size_t ahead = portion > 1 ? portion / 2 : PORTIONS_AHEAD;
    while (s->more && !cancelled) {
        while (submitted < most && submitted < s->out->ids.n + ahead) {
            size_t n = MIN(portion, most - submitted);
            decoder_steps_submit(j->e->steps, (int)n);
            submitted += n;
        }
        if (!decoder_steps_take(j->e->steps, &id)) break; /* failed: generate() reports the error */
        record_tokens(j->rec, s->request, 1, 1);
        job_take_token(j, s, id);
        job_stamp_tokens(j, NULL, job_ms_since(step));
        step = clock_mono_ns();
        cancelled = job_is_cancelled(j);
    }
    decoder_steps_stop(j->e->steps);
    s->out->decode_ms = job_end_pass(j->e, start); /* waits after single tokens would not delay the device */
    uint64_t end = clock_wall_ns();
    record_pop(j->rec, RECORD_STAGES);
    record_spans(j, false, wall, end);
    return !cancelled || !s->more;
}

/* ---- steps of a batch on the device: greedy sampling without the n-gram rule */
static bool has_batch(struct job *j) {
    if (j->n == 1 || j->r->sampling.temperature > 0 || job_ngram_size(j)) return false;
    struct decoder_batch *old = j->e->batch_steps;
    j->e->batch_steps = NULL; /* stays so if decoder_batch_open() runs out of memory */
    j->e->batch_steps = decoder_batch_open(old, j->e->decoder, j->n);
    return j->e->batch_steps;
}

static void begin_batch(struct job *j) {
    int *positions = xcalloc((size_t)j->n, sizeof *positions), last = j->e->decoder->positions - 1;
    for (int i = 0; i < j->n; i++) {
        const struct sequence *s = &j->v[i];
        j->ids[i] = s->out->ids.v[s->out->ids.n - 1];
        /* steps also compute sequences that have stopped, such as one whose prompt fills the context */
        positions[i] = MIN((int)(s->prompt.ids.n + s->out->ids.n) - 1, last);
    }
    decoder_batch_begin(j->e->batch_steps, j->ids, positions);
    free(positions);
}

static void take_tokens(struct job *j, bool *stepped) {
    for (int i = 0; i < j->n; i++) {
        struct sequence *s = &j->v[i];
        stepped[i] = s->more;
        if (!s->more) continue;
        record_tokens(j->rec, s->request, 1, 1);
        job_take_token(j, s, j->ids[i]);
    }
}

static bool decode_batch(struct job *j) {
    enum { AHEAD = 3 };
    bool *stepped = xcalloc((size_t)j->n, sizeof *stepped), cancelled = false;
    uint64_t start = clock_mono_ns(), wall = clock_wall_ns(), step = start;
    size_t submitted = 0, taken = 0, most = j->r->max_new_tokens - 1;
    record_push(j->rec, RECORD_STAGES, "decode", -1);
    begin_batch(j);
    while (job_any_more(j) && !cancelled) {
        for (; submitted < MIN(most, taken + AHEAD); submitted++) decoder_batch_submit(j->e->batch_steps, 1);
        if (!decoder_batch_take(j->e->batch_steps, j->ids)) break; /* failed: generate() reports the error */
        taken++;
        take_tokens(j, stepped);
        job_stamp_tokens(j, stepped, job_ms_since(step));
        step = clock_mono_ns();
        cancelled = job_is_cancelled(j);
    }
    double ms = job_end_pass(j->e, start);
    uint64_t end = clock_wall_ns();
    record_pop(j->rec, RECORD_STAGES);
    record_spans(j, true, wall, end);
    for (int i = 0; i < j->n; i++) j->v[i].out->decode_ms = ms;
    free(stepped);
    return !cancelled || !job_any_more(j);
}

void job_open_steps(struct job *j) {
    if (has_steps(j))
        j->steps = decoder_steps_ready(j->e->steps) ? STEPS_OF_ONE : STEPS_OF_OPERATORS;
    else
        j->steps = has_batch(j) ? STEPS_OF_BATCH : STEPS_OF_OPERATORS;
}

bool job_decode(struct job *j) {
    if (j->steps == STEPS_OF_ONE) return decode_on_device(j);
    return j->steps == STEPS_OF_BATCH ? decode_batch(j) : decode_by_operators(j);
}
