/* The stages of a session as inputs of the analysis: times and work of the timed repeats, costs and tokens of
 * the recorded request. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/stats.h"
#include "base/vec.h"
#include "run/profiled_internal.h"
#include "run/request_cost.h"

static double stage_ms(const struct engine_answer *a, const char *stage) {
    if (strcmp(stage, "prefill") == 0) return a->prefill_ms;
    if (strcmp(stage, "decode") == 0) return a->decode_ms;
    for (size_t i = 0; i < a->stages.n; i++)
        if (strcmp(a->stages.v[i].name, stage) == 0) return a->stages.v[i].ms;
    return NAN;
}

double profiled_decoded(const struct engine_answer *a) { return a->new_tokens - a->batch; }

static double stage_tokens(const struct engine_answer *a, const char *stage) {
    if (strcmp(stage, "prefill") == 0) return a->prompt_tokens;
    return strcmp(stage, "decode") == 0 ? profiled_decoded(a) : NAN;
}

const struct engine_answer *profiled_answer(const struct session_repeat *rep) {
    static const struct engine_answer none = { .preprocess_ms = NAN,
                                               .prefill_ms = NAN,
                                               .decode_ms = NAN,
                                               .ttft_ms = NAN,
                                               .prompt_tokens = NAN,
                                               .new_tokens = NAN,
                                               .batch = NAN,
                                               .peak_memory_bytes = NAN,
                                               .prefill_experts = NAN,
                                               .decode_experts = NAN };
    return rep->done ? &rep->answer : &none;
}

/* Lists prefill, other stages of the engine, stages that occur only in its answers, and decode. */
static void stage_names(const struct session_result *res, struct strlist *names) {
    strlist_add(names, "prefill");
    for (size_t i = 0; res->loaded && i < res->info.stages.n; i++) {
        const char *name = res->info.stages.v[i];
        if (!strlist_has(names, name) && strcmp(name, "decode") != 0) strlist_add(names, "%s", name);
    }
    for (size_t i = 0; i < res->nrepeats; i++) {
        const struct engine_answer *a = profiled_answer(&res->repeats[i]);
        for (size_t k = 0; k < a->stages.n; k++)
            if (!strlist_has(names, a->stages.v[k].name) && strcmp(a->stages.v[k].name, "decode") != 0)
                strlist_add(names, "%s", a->stages.v[k].name);
    }
    strlist_add(names, "decode");
}

/* `level`: memory level whose bandwidth is used; NULL: the peak bandwidth. Returns false if the cost is
 * unknown. */
static bool stage_cost(const struct profiled_session *s, const struct session_repeat *rep, const char *stage,
                       const struct llm_level *level, struct llm_cost *out) {
    struct llm_peak peak = s->peak->peak;
    if (level) peak.bytes_per_s = level->bytes_per_s;
    const struct settings *settings = &s->plan->s;
    double context = strcmp(settings->infer.context_len_mode, "auto") == 0
                         ? NAN
                         : request_context(settings, s->plan->model, &s->result->info, &rep->answer);
    return request_cost(s->plan->model, &peak, &s->images[rep->item], stage, &rep->answer, context, out);
}

static double step_bytes(const struct profiled_session *s, const struct session_repeat *rep,
                         const char *stage) {
    struct llm_cost c;
    if (!rep->done || !stage_cost(s, rep, stage, NULL, &c)) return NAN;
    return c.bytes / request_passes(stage, &rep->answer);
}

/* Memory level for the smallest working set over all requests. The other requests can then only have a lower
 * bandwidth, so the roofline time is never too long. */
static const struct llm_level *stage_level(const struct profiled_session *s, const char *stage) {
    double least = step_bytes(s, &s->result->representative, stage);
    for (size_t i = 0; i < s->result->nrepeats; i++)
        least = fmin(least, step_bytes(s, &s->result->repeats[i], stage));
    return llm_level_for(&s->peak->levels, least);
}

/* Cost of a stage for the input and token counts of each repeat. */
struct repeat_costs {
    double *flops, *bytes, *floor_ms; /* [repeats] */
    /* of the last repeat with a known cost */
    struct llm_cost last;
    bool known;
};

static struct repeat_costs costs_of_repeats(const struct profiled_session *session, const char *stage) {
    const struct session_result *res = session->result;
    const struct llm_level *level = stage_level(session, stage);
    size_t size = sizeof(double);
    struct repeat_costs out = { .flops = xcalloc(res->nrepeats + 1, size),
                                .bytes = xcalloc(res->nrepeats + 1, size),
                                .floor_ms = xcalloc(res->nrepeats + 1, size) };
    for (size_t i = 0; i < res->nrepeats; i++) {
        struct llm_cost c = { .flops = NAN, .bytes = NAN, .floor_s = NAN };
        if (res->repeats[i].done && stage_cost(session, &res->repeats[i], stage, level, &c)) {
            out.last = c;
            out.known = true;
        }
        out.flops[i] = c.flops;
        out.bytes[i] = c.bytes;
        out.floor_ms[i] = c.floor_s * 1e3;
    }
    return out;
}

/* Recorded time / median timed time of the same input. Timed repeats are scaled to the token count of the
 * recorded request. */
static double representative_ratio(const struct profiled_session *session, const char *stage) {
    const struct session_result *res = session->result;
    const struct session_repeat *rep = &res->representative;
    double recorded = rep->done ? stage_ms(&rep->answer, stage) : NAN,
           *same = xcalloc(res->nrepeats + 1, sizeof *same);
    double tokens = rep->done ? stage_tokens(&rep->answer, stage) : NAN;
    size_t n = 0;
    for (size_t i = 0; i < res->nrepeats; i++) {
        const struct session_repeat *r = &res->repeats[i];
        if (!r->done || r->item != rep->item) continue;
        double theirs = stage_tokens(&r->answer, stage), ms = stage_ms(&r->answer, stage);
        same[n++] = tokens > 0 && theirs > 0 ? ms * tokens / theirs : ms;
    }
    double timed = stats_median(same, n), ratio = recorded / timed;
    free(same);
    return isfinite(ratio) ? ratio : NAN;
}

/* Only prefill reads tokens. Other stages generate tokens, or their tokens are not counted. */
static bool reads_tokens(const char *stage) { return strcmp(stage, "prefill") == 0; }

static bool is_top_level(const char *stage) {
    return strcmp(stage, "prefill") == 0 || strcmp(stage, "decode") == 0;
}

/* Takes ownership of the name. */
static void fill_timing(struct profiled_run *r, const struct profiled_session *session, size_t i,
                        char *name) {
    const struct session_result *res = session->result;
    double *ms = xcalloc(res->nrepeats + 1, sizeof *ms), *tokens = xcalloc(res->nrepeats + 1, sizeof *tokens);
    for (size_t k = 0; k < res->nrepeats; k++) {
        const struct engine_answer *a = profiled_answer(&res->repeats[k]);
        ms[k] = stage_ms(a, name);
        tokens[k] = stage_tokens(a, name);
    }
    struct repeat_costs costs = costs_of_repeats(session, name);
    r->timed_costs[i] = costs.last;
    r->works[i] =
        (struct analyze_work){ .tokens = stats_median(tokens, res->nrepeats),
                               .flops = stats_median(costs.flops, res->nrepeats),
                               .bytes = stats_median(costs.bytes, res->nrepeats),
                               .floor_ms = stats_median(costs.floor_ms, res->nrepeats),
                               .recorded_ms = stage_ms(profiled_answer(&res->representative), name) };
    r->timings[i] = (struct analyze_timing){ .stage = name,
                                             .parent = is_top_level(name) ? NULL : "prefill",
                                             .n = res->nrepeats,
                                             .ms = ms,
                                             .recording_cost = representative_ratio(session, name),
                                             .failed = r->failed,
                                             .input = r->inputs,
                                             .recorded_input = (uint32_t)res->representative.item,
                                             .flops = costs.known ? costs.flops : NULL,
                                             .bytes = costs.known ? costs.bytes : NULL,
                                             .floor_ms = costs.known ? costs.floor_ms : NULL,
                                             .tokens_in = reads_tokens(name) ? tokens : NULL,
                                             .tokens_out = reads_tokens(name) ? NULL : tokens,
                                             .work = &r->works[i] };
    vec_push(&r->owned, name);
    vec_push(&r->owned, (char *)ms);
    vec_push(&r->owned, (char *)tokens);
    vec_push(&r->owned, (char *)costs.flops);
    vec_push(&r->owned, (char *)costs.bytes);
    vec_push(&r->owned, (char *)costs.floor_ms);
}

/* A repeat that was not run because the recorded request failed counts as failed. Otherwise the time of the
 * broken trace would be used for the stage. */
static void fill_repeats(struct profiled_run *r, const struct profiled_session *session) {
    const struct session_result *res = session->result;
    r->failed = xcalloc(res->nrepeats + 1, sizeof *r->failed);
    r->inputs = xcalloc(res->nrepeats + 1, sizeof *r->inputs);
    r->repeats = xcalloc(res->nrepeats + 1, sizeof *r->repeats);
    for (size_t i = 0; i < res->nrepeats; i++) {
        const struct session_repeat *rep = &res->repeats[i];
        r->failed[i] = rep->error || (!rep->done && res->representative.error);
        r->inputs[i] = (uint32_t)rep->item;
        r->repeats[i] = (struct run_repeat){ .process = rep->process ? rep->process : 1,
                                             .input = r->inputs[i],
                                             .name = session->plan->dataset.v[rep->item].name };
    }
    r->info.each_repeat = r->repeats;
    r->info.neach_repeat = res->nrepeats;
}

void profiled_fill_stages(struct profiled_run *r, const struct profiled_session *session) {
    struct strlist names = { 0 };
    stage_names(session->result, &names);
    r->nstages = names.n;
    r->timings = xcalloc(names.n, sizeof *r->timings);
    r->works = xcalloc(names.n, sizeof *r->works);
    r->timed_costs = xcalloc(names.n, sizeof *r->timed_costs);
    fill_repeats(r, session);
    for (size_t i = 0; i < names.n; i++) fill_timing(r, session, i, names.v[i]);
    free(names.v);
}

/* True if the bytes assume even routing of tokens to experts: there are several tokens, and the engine does
 * not report the number of experts. */
static bool assumes_routing(const struct profiled_session *session, const char *stage,
                            const struct engine_answer *a) {
    const struct llm_model *m = session->plan->model;
    if (request_experts(stage, a) > 0) return false;
    return m && m->text.experts && (reads_tokens(stage) || (is_top_level(stage) && a->batch > 1));
}

/* Costs and tokens of the recorded request. */
void profiled_fill_recorded(struct profiled_run *r, const struct profiled_session *session) {
    const struct session_repeat *rep = &session->result->representative;
    r->costs = xcalloc(r->nstages, sizeof *r->costs);
    r->tokens = xcalloc(r->nstages, sizeof *r->tokens);
    for (size_t i = 0; i < r->nstages; i++) {
        const char *stage = r->timings[i].stage;
        double tokens = stage_tokens(profiled_answer(rep), stage);
        bool reads = reads_tokens(stage);
        struct llm_cost c = { .flops = NAN, .bytes = NAN, .floor_s = NAN, .compute_s = NAN };
        const struct llm_level *level = stage_level(session, stage);
        char text[48];
        if (rep->done) stage_cost(session, rep, stage, level, &c);
        double pass_bytes = step_bytes(session, rep, stage);
        if (level) strlist_add(&r->owned, "%s", llm_level_text_for(level, pass_bytes, text, sizeof text));
        r->costs[i] =
            (struct analyze_cost){ .stage = stage,
                                   .flops = c.flops,
                                   .bytes = c.bytes,
                                   .floor_ns = c.floor_s * 1e9,
                                   .peak_flops_per_s = c.flops / c.compute_s,
                                   .peak_bytes_per_s = level ? level->bytes_per_s : NAN,
                                   .level = level ? r->owned.v[r->owned.n - 1] : NULL,
                                   .step_bytes = c.bytes / request_passes(stage, profiled_answer(rep)),
                                   .experts_read = request_experts(stage, profiled_answer(rep)),
                                   .experts_assumed = assumes_routing(session, stage, profiled_answer(rep)) };
        r->tokens[i] = (struct analyze_tokens){ stage, reads ? tokens : NAN, reads ? NAN : tokens };
    }
}
