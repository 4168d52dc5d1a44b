/* Figures of the timed repeats other than stage times: time to first token, rates, energy, memory. */
#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "run/profiled_internal.h"

/* One value per repeat; caller frees. */
static double *over_repeats(const struct profiled_session *session,
                            double (*of)(const struct engine_answer *a)) {
    const struct session_result *res = session->result;
    double *v = xcalloc(res->nrepeats + 1, sizeof *v);
    for (size_t i = 0; i < res->nrepeats; i++) v[i] = of(profiled_answer(&res->repeats[i]));
    return v;
}

static double first_token_ms(const struct engine_answer *a) { return a->ttft_ms; }
static double preprocess_ms(const struct engine_answer *a) { return a->preprocess_ms; }
static double token_ms(const struct engine_answer *a) {
    return profiled_decoded(a) > 0 ? a->decode_ms / (profiled_decoded(a) / a->batch) : NAN;
}
static double decode_rate(const struct engine_answer *a) {
    return a->decode_ms > 0 ? profiled_decoded(a) / a->decode_ms * 1e3 : NAN;
}
static double prefill_rate(const struct engine_answer *a) {
    return a->prefill_ms > 0 ? a->prompt_tokens / a->prefill_ms * 1e3 : NAN;
}
static double new_tokens(const struct engine_answer *a) { return a->new_tokens; }
static double prompt_tokens(const struct engine_answer *a) { return a->prompt_tokens; }
/* Total time of the sub-stages of prefill, which process images. NaN: there are none. */
static double vision_ms(const struct engine_answer *a) {
    double sum = a->stages.n ? 0 : NAN;
    for (size_t i = 0; i < a->stages.n; i++) sum += a->stages.v[i].ms;
    return sum;
}
static double decoder_prefill_ms(const struct engine_answer *a) { return a->prefill_ms - vision_ms(a); }

/* Adds the figure if a repeat has a value. Takes ownership of the values. */
static void add_if_known(struct profiled_run *r, struct run_figure f) {
    bool known = false;
    for (size_t i = 0; i < f.n; i++) known |= isfinite(f.values[i]);
    vec_push(&r->owned, (char *)f.values);
    if (known) r->figures[r->info.nfigures++] = f;
}

/* Energy of the whole request per new token, because a GPU's energy counter is updated too rarely to separate
 * prefill from decode. */
static void fill_energy(struct profiled_run *r, const struct profiled_session *session) {
    const struct session_result *res = session->result;
    double *v = xcalloc(res->nrepeats + 1, sizeof *v);
    for (size_t i = 0; i < res->nrepeats; i++)
        v[i] = res->repeats[i].joules / profiled_answer(&res->repeats[i])->new_tokens;
    add_if_known(r, (struct run_figure){ .key = "joules_per_new_token",
                                         .name = "Energy per new token (whole request)",
                                         .unit = "J/token",
                                         .values = v,
                                         .n = res->nrepeats });
}

static double peak_memory_gb(const struct engine_answer *a) { return a->peak_memory_bytes / 1e9; }

static void fill_peak_memory(struct profiled_run *r, const struct profiled_session *session) {
    add_if_known(r, (struct run_figure){ .key = "peak_memory",
                                         .name = "Peak device memory",
                                         .unit = "GB",
                                         .values = over_repeats(session, peak_memory_gb),
                                         .n = session->result->nrepeats });
}

static void fill_vision(struct profiled_run *r, const struct profiled_session *session) {
    add_if_known(r, (struct run_figure){ .key = "vision",
                                         .name = "Vision (all sub-stages of prefill)",
                                         .unit = "ms",
                                         .values = over_repeats(session, vision_ms),
                                         .n = session->result->nrepeats });
    add_if_known(r, (struct run_figure){ .key = "prefill_without_vision",
                                         .name = "Prefill without vision (decoder)",
                                         .unit = "ms",
                                         .values = over_repeats(session, decoder_prefill_ms),
                                         .n = session->result->nrepeats });
}

double profiled_request_ms(const struct engine_answer *a) {
    return a->preprocess_ms + a->prefill_ms + (profiled_decoded(a) > 0 ? a->decode_ms : 0);
}

void profiled_fill_figures(struct profiled_run *r, const struct profiled_session *session) {
    static const struct {
        const char *key, *name, *unit;
        double (*of)(const struct engine_answer *a);
        bool larger;
    } rows[] = {
        { "time_to_first_token", "Time to first token", "ms", first_token_ms, false },
        { "time_per_token", "Time per token (decode)", "ms", token_ms, false },
        { "decode_tokens_per_s", "Decode rate", "tok/s", decode_rate, true },
        { "prefill_tokens_per_s", "Prefill rate", "tok/s", prefill_rate, true },
        { "preprocess", "Preprocessing", "ms", preprocess_ms, false },
        { "end_to_end", "Preprocessing, prefill and decode", "ms", profiled_request_ms, false },
        { "prompt_tokens", "Prompt tokens", "tokens", prompt_tokens, false },
        { "new_tokens", "New tokens", "tokens", new_tokens, true },
    };
    r->figures = xcalloc(COUNTOF(rows) + 4, sizeof *r->figures);
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        double *v = over_repeats(session, rows[i].of);
        vec_push(&r->owned, (char *)v);
        r->figures[i] = (struct run_figure){ .key = rows[i].key,
                                             .name = rows[i].name,
                                             .unit = rows[i].unit,
                                             .values = v,
                                             .n = session->result->nrepeats,
                                             .larger_is_better = rows[i].larger };
    }
    r->info.figures = r->figures;
    r->info.nfigures = COUNTOF(rows);
    fill_vision(r, session);
    fill_energy(r, session);
    fill_peak_memory(r, session);
}
