#include "run/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/stats.h"
#include "base/util.h"
#include "run/request_cost.h"
#include "session/engine_client.h"
#include "session/engine_env.h"
#include "session/requests.h"

#define FIRST_ID 3        /* smaller ids are often special */
#define DEFAULT_VOCAB 256 /* ids that every model has */

/* Ids are spread over the vocabulary, with another start for each sequence. */
static uint64_t id_at(uint64_t sequence, uint64_t i, uint64_t vocab) {
    return FIRST_ID + (i * 7919 + sequence * 104729) % (vocab - FIRST_ID);
}

static json_t *sequence_ids(const struct bench *b, uint64_t sequence) {
    const struct llm_model *m = b->plan->model;
    uint64_t vocab = m && m->text.vocab > DEFAULT_VOCAB ? m->text.vocab : DEFAULT_VOCAB;
    json_t *ids = json_array();
    for (uint64_t i = 0; i < b->prompt_tokens; i++)
        json_array_append_new(ids, json_integer((json_int_t)id_at(sequence, i, vocab)));
    return ids;
}

/* A single sequence is a plain list, because some engines do not accept the batch form. */
static json_t *make_request(const struct bench *b, uint64_t batch) {
    struct dataset_item nothing = { .max_new_tokens = -1 };
    json_t *r = request_infer(&b->plan->s, &nothing, (int64_t)b->new_tokens, "none", NULL);
    json_t *ids = batch == 1 ? sequence_ids(b, 0) : json_array();
    for (uint64_t i = 0; batch > 1 && i < batch; i++) json_array_append_new(ids, sequence_ids(b, i));
    json_object_del(r, "prompt");
    json_object_set_new(r, "prompt_ids", ids);
    json_object_set_new(r, "ignore_eos", json_true());
    return r;
}

struct samples {
    double *prefill_ms, *step_ms, *decode_ms;
    size_t n;
};

static void take_answer(struct samples *s, const struct engine_answer *a) {
    double steps = a->new_tokens / a->batch - 1;
    s->prefill_ms[s->n] = a->prefill_ms;
    s->decode_ms[s->n] = a->decode_ms;
    s->step_ms[s->n++] = steps > 0 ? a->decode_ms / steps : NAN;
}

static void fill_costs(const struct bench *b, const struct engine_answer *a, struct bench_row *row) {
    const struct llm_peak *peak = &b->peak->peak;
    struct llm_cost c;
    double steps = a->new_tokens / a->batch - 1;
    if (request_cost(b->plan->model, peak, NULL, "prefill", a, NAN, &c)) {
        row->prefill_roof_ms = c.floor_s * 1e3;
        row->prefill_mfu = llm_utilization(c.flops, row->prefill_ms * 1e-3, peak->flop_per_s);
        row->prefill_mbu = llm_utilization(c.bytes, row->prefill_ms * 1e-3, peak->bytes_per_s);
    }
    if (request_cost(b->plan->model, peak, NULL, "decode", a, NAN, &c)) {
        row->step_roof_ms = c.floor_s * 1e3 / steps;
        row->decode_roof_tokens_per_s = a->batch / (row->step_roof_ms * 1e-3);
        row->decode_mfu = llm_utilization(c.flops, row->step_ms * steps * 1e-3, peak->flop_per_s);
        row->decode_mbu = llm_utilization(c.bytes, row->step_ms * steps * 1e-3, peak->bytes_per_s);
    }
}

static void fill_row(const struct bench *b, const struct samples *s, const struct engine_answer *last,
                     struct bench_row *row) {
    struct stats decode = stats_of(s->decode_ms, s->n);
    row->repeats = s->n;
    row->prefill_ms = stats_of(s->prefill_ms, s->n).median;
    row->step_ms = stats_of(s->step_ms, s->n).median;
    row->cv = decode.cv;
    row->prefill_tokens_per_s = last->prompt_tokens / row->prefill_ms * 1e3;
    row->decode_tokens_per_s = last->batch / row->step_ms * 1e3;
    row->peak_memory_bytes = last->peak_memory_bytes;
    if (last->prompt_tokens != (double)(row->batch * row->prompt_tokens))
        row->note = xasprintf("the engine read %.0f prompt tokens", last->prompt_tokens);
    fill_costs(b, last, row);
}

/* Runs the warm-up and the repeats, and fills the row. Returns false if the engine cannot continue. */
static bool measure(struct bench *b, struct engine_client *engine, struct bench_row *row, struct err *err) {
    size_t repeats = (size_t)b->plan->s.repeats, size = sizeof(double);
    struct samples s = { xcalloc(repeats, size), xcalloc(repeats, size), xcalloc(repeats, size), 0 };
    struct engine_answer last = { 0 };
    enum engine_result result = ENGINE_OK;
    size_t rounds = (size_t)b->plan->s.profiling.warmup_rounds;
    for (size_t i = 0; i < rounds + repeats && result == ENGINE_OK; i++) {
        json_t *request = make_request(b, row->batch);
        struct engine_answer a;
        progress_note("batch %" PRIu64 ", %s %zu", row->batch, i < rounds ? "warm-up" : "repeat",
                      i < rounds ? i + 1 : i - rounds + 1);
        result = engine_client_infer(engine, request, &a, err);
        json_decref(request);
        if (result != ENGINE_OK) break;
        if (i >= rounds) take_answer(&s, &a);
        engine_answer_free(&last);
        last = a;
    }
    if (s.n) fill_row(b, &s, &last, row);
    if (result == ENGINE_NO) {
        free(row->note);
        row->note = xstrdup(err->msg);
    }
    engine_answer_free(&last);
    free(s.prefill_ms);
    free(s.step_ms);
    free(s.decode_ms);
    return result == ENGINE_OK || result == ENGINE_NO;
}

static void init_rows(struct bench *b) {
    b->rows = xcalloc(b->nbatches + 1, sizeof *b->rows);
    for (size_t i = 0; i < b->nbatches; i++)
        b->rows[i] = (struct bench_row){ .batch = b->batches[i],
                                         .prompt_tokens = b->prompt_tokens,
                                         .new_tokens = b->new_tokens,
                                         .prefill_ms = NAN,
                                         .prefill_tokens_per_s = NAN,
                                         .prefill_roof_ms = NAN,
                                         .prefill_mfu = NAN,
                                         .prefill_mbu = NAN,
                                         .step_ms = NAN,
                                         .step_roof_ms = NAN,
                                         .decode_tokens_per_s = NAN,
                                         .decode_roof_tokens_per_s = NAN,
                                         .decode_mfu = NAN,
                                         .decode_mbu = NAN,
                                         .cv = NAN,
                                         .peak_memory_bytes = NAN };
}

static struct engine_client *open_engine(struct bench *b, struct err *err) {
    const struct settings *s = &b->plan->s;
    struct strlist env = { 0 };
    engine_env(s, &b->plan->device, &env);
    const char **set = xcalloc(env.n + 1, sizeof *set);
    for (size_t i = 0; i < env.n; i++) set[i] = env.v[i];
    json_t *load = request_load(s, b->plan->device.cuda ? "cuda:0" : "cpu");
    struct engine_client_options o = { .argv = b->plan->argv,
                                       .set = set,
                                       .load = load,
                                       .start_limit_s = s->engine.start_timeout_s,
                                       .load_limit_s = s->engine.load_timeout_s,
                                       .request_limit_s = s->engine.request_timeout_s };
    struct engine_client *engine = engine_client_open(&o, &b->info, err);
    json_decref(load);
    free(set);
    strlist_free(&env);
    return engine;
}

int bench_run(struct bench *b, struct err *err) {
    init_rows(b);
    progress_start("measuring", "batch sizes", b->nbatches);
    struct engine_client *engine = open_engine(b, err);
    int rc = engine ? 0 : -1;
    for (size_t i = 0; engine && i < b->nbatches && rc == 0; i++) {
        struct bench_row *row = &b->rows[i];
        progress_update(i);
        if (row->batch > 1 && !(b->info.max_batch >= (double)row->batch)) {
            row->note = b->info.max_batch > 1
                            ? xasprintf("the engine accepts at most %.0f sequences", b->info.max_batch)
                            : xstrdup("the engine has no batch form (docs/engine.md)");
            continue;
        }
        if (!measure(b, engine, row, err)) rc = -1;
        if (interrupt_signal()) break;
    }
    progress_finish();
    engine_client_close(engine);
    b->interrupted = interrupt_signal();
    return b->interrupted ? 0 : rc;
}

void bench_free(struct bench *b) {
    for (size_t i = 0; b->rows && i < b->nbatches; i++) free(b->rows[i].note);
    free(b->rows);
    b->rows = NULL;
    engine_info_free(&b->info);
}
