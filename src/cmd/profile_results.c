#include "cmd/profile_results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/util.h"
#include "base/vec.h"
#include "report/run.h"
#include "timeline/timeline.h"
#include "trace/reader_files.h"

#define ADVISE_ABOVE 0.25 /* what recording may cost before a lighter preset is advised */

/* ---- times */

static double stage_ms(const struct engine_answer *a, const char *stage) {
    if (strcmp(stage, "prefill") == 0) return a->prefill_ms;
    if (strcmp(stage, "decode") == 0) return a->decode_ms;
    for (size_t i = 0; i < a->stages.n; i++)
        if (strcmp(a->stages.v[i].name, stage) == 0) return a->stages.v[i].ms;
    return NAN;
}

/* Tokens of decode: the first of each sequence is prefill's. */
static double decoded(const struct engine_answer *a) { return a->new_tokens - a->batch; }

static double stage_tokens(const struct engine_answer *a, const char *stage) {
    if (strcmp(stage, "prefill") == 0) return a->prompt_tokens;
    return strcmp(stage, "decode") == 0 ? decoded(a) : NAN;
}

static const struct engine_answer *answer_of(const struct session_repeat *rep) {
    static const struct engine_answer none = { .preprocess_ms = NAN,
                                               .prefill_ms = NAN,
                                               .decode_ms = NAN,
                                               .ttft_ms = NAN,
                                               .prompt_tokens = NAN,
                                               .new_tokens = NAN,
                                               .batch = NAN,
                                               .peak_memory_bytes = NAN };
    return rep->done ? &rep->answer : &none;
}

/* [repeats], caller frees. */
static double *over_repeats(const struct profile_run *run, double (*of)(const struct engine_answer *a)) {
    const struct session_result *res = run->result;
    double *v = xcalloc(res->nrepeats + 1, sizeof *v);
    for (size_t i = 0; i < res->nrepeats; i++) v[i] = of(answer_of(&res->repeats[i]));
    return v;
}

static double median_of(const double *v, size_t n) { return stats_of(v, n).median; }

/* ---- stages */

static bool has_stage(const struct strlist *names, const char *name) {
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->v[i], name) == 0) return true;
    return false;
}

/* What the engine announced, and what its answers hold beyond that. */
static void stage_names(const struct session_result *res, struct strlist *names) {
    strlist_add(names, "prefill");
    for (size_t i = 0; res->loaded && i < res->info.stages.n; i++) {
        const char *name = res->info.stages.v[i];
        if (!has_stage(names, name) && strcmp(name, "decode") != 0) strlist_add(names, "%s", name);
    }
    for (size_t i = 0; i < res->nrepeats; i++) {
        const struct engine_answer *a = answer_of(&res->repeats[i]);
        for (size_t k = 0; k < a->stages.n; k++)
            if (!has_stage(names, a->stages.v[k].name) && strcmp(a->stages.v[k].name, "decode") != 0)
                strlist_add(names, "%s", a->stages.v[k].name);
    }
    strlist_add(names, "decode");
}

/* The median over the repeats of each number of the cost on its own. */
static bool median_cost(const struct profile_run *run, const char *stage, struct llm_cost *out) {
    const struct session_result *res = run->result;
    double *flops = xcalloc(3 * (res->nrepeats + 1), sizeof *flops), *bytes = flops + res->nrepeats + 1,
           *floors = bytes + res->nrepeats + 1;
    size_t n = 0;
    for (size_t i = 0; i < res->nrepeats; i++) {
        const struct session_repeat *rep = &res->repeats[i];
        struct llm_cost c;
        if (!rep->done ||
            !profile_cost(run->plan, run->peak, &run->images[rep->item], stage, &rep->answer, &c))
            continue;
        *out = c; /* the shares within it, from the last */
        flops[n] = c.flops;
        bytes[n] = c.bytes;
        floors[n++] = c.floor_s;
    }
    if (n) {
        out->flops = median_of(flops, n);
        out->bytes = median_of(bytes, n);
        out->floor_s = median_of(floors, n);
    }
    free(flops);
    return n > 0;
}

/* Recorded over timed, for the input of the representative run; per token where the lengths differ. */
static double representative_ratio(const struct profile_run *run, const char *stage) {
    const struct session_result *res = run->result;
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
    double timed = median_of(same, n), ratio = recorded / timed;
    free(same);
    return isfinite(ratio) ? ratio : NAN;
}

/* Reads tokens: prefill. The others make them, or have none. */
static bool reads_tokens(const char *stage) { return strcmp(stage, "prefill") == 0; }

static bool is_top_level(const char *stage) {
    return strcmp(stage, "prefill") == 0 || strcmp(stage, "decode") == 0;
}

/* Times, tokens and costs of the timed repeats. Takes the name over. */
static void fill_timing(struct profile_results *r, const struct profile_run *run, size_t i, char *name) {
    const struct session_result *res = run->result;
    double *ms = xcalloc(res->nrepeats + 1, sizeof *ms), *tokens = xcalloc(res->nrepeats + 1, sizeof *tokens);
    for (size_t k = 0; k < res->nrepeats; k++) {
        const struct engine_answer *a = answer_of(&res->repeats[k]);
        ms[k] = stage_ms(a, name);
        tokens[k] = stage_tokens(a, name);
    }
    struct llm_cost *cost = &r->timed_costs[i];
    if (!median_cost(run, name, cost))
        *cost = (struct llm_cost){ .flops = NAN, .bytes = NAN, .floor_s = NAN };
    double ratio = representative_ratio(run, name);
    r->works[i] = (struct analyze_work){ .tokens = median_of(tokens, res->nrepeats),
                                         .flops = cost->flops,
                                         .bytes = cost->bytes,
                                         .floor_ms = cost->floor_s * 1e3,
                                         .recorded_ms = ratio * median_of(ms, res->nrepeats) };
    r->timings[i] = (struct analyze_timing){ .stage = name,
                                             .parent = is_top_level(name) ? NULL : "prefill",
                                             .n = res->nrepeats,
                                             .ms = ms,
                                             .recording_cost = ratio,
                                             .failed = r->failed,
                                             .tokens_in = reads_tokens(name) ? tokens : NULL,
                                             .tokens_out = reads_tokens(name) ? NULL : tokens,
                                             .work = &r->works[i] };
    vec_push(&r->owned, name);
    vec_push(&r->owned, (char *)ms);
    vec_push(&r->owned, (char *)tokens);
}

static void fill_stages(struct profile_results *r, const struct profile_run *run) {
    struct strlist names = { 0 };
    stage_names(run->result, &names);
    r->nstages = names.n;
    r->timings = xcalloc(names.n, sizeof *r->timings);
    r->works = xcalloc(names.n, sizeof *r->works);
    r->timed_costs = xcalloc(names.n, sizeof *r->timed_costs);
    r->failed = xcalloc(run->result->nrepeats + 1, sizeof *r->failed);
    for (size_t i = 0; i < run->result->nrepeats; i++) r->failed[i] = run->result->repeats[i].error != NULL;
    for (size_t i = 0; i < names.n; i++) fill_timing(r, run, i, names.v[i]);
    free(names.v);
}

/* ---- figures */

static double ttft(const struct engine_answer *a) { return a->ttft_ms; }
static double preprocess(const struct engine_answer *a) { return a->preprocess_ms; }
static double per_token(const struct engine_answer *a) {
    return decoded(a) > 0 ? a->decode_ms / (decoded(a) / a->batch) : NAN;
}
static double decode_rate(const struct engine_answer *a) {
    return a->decode_ms > 0 ? decoded(a) / a->decode_ms * 1e3 : NAN;
}
static double prefill_rate(const struct engine_answer *a) {
    return a->prefill_ms > 0 ? a->prompt_tokens / a->prefill_ms * 1e3 : NAN;
}
/* A figure that not every run has: only where a repeat knows it. Takes the values over. */
static void add_if_known(struct profile_results *r, struct report_figure f) {
    bool known = false;
    for (size_t i = 0; i < f.n; i++) known |= isfinite(f.values[i]);
    vec_push(&r->owned, (char *)f.values);
    if (known) r->figures[r->in.nfigures++] = f;
}

/* Of the whole request: a GPU's counter is too slow to tell prefill from decode. */
static void fill_energy(struct profile_results *r, const struct profile_run *run) {
    const struct session_result *res = run->result;
    double *v = xcalloc(res->nrepeats + 1, sizeof *v);
    for (size_t i = 0; i < res->nrepeats; i++)
        v[i] = res->repeats[i].joules / answer_of(&res->repeats[i])->new_tokens;
    add_if_known(r, (struct report_figure){ .key = "joules_per_new_token",
                                            .name = "Energy per new token (whole request)",
                                            .unit = "J/token",
                                            .values = v,
                                            .n = res->nrepeats });
}

static double peak_memory(const struct engine_answer *a) { return a->peak_memory_bytes / 1e9; }

static void fill_peak_memory(struct profile_results *r, const struct profile_run *run) {
    add_if_known(r, (struct report_figure){ .key = "peak_memory",
                                            .name = "Peak device memory",
                                            .unit = "GB",
                                            .values = over_repeats(run, peak_memory),
                                            .n = run->result->nrepeats });
}

static double whole(const struct engine_answer *a) {
    return a->preprocess_ms + a->prefill_ms + (decoded(a) > 0 ? a->decode_ms : 0);
}

static void fill_figures(struct profile_results *r, const struct profile_run *run) {
    static const struct {
        const char *key, *name, *unit;
        double (*of)(const struct engine_answer *a);
        bool larger;
    } rows[] = {
        { "time_to_first_token", "Time to first token", "ms", ttft, false },
        { "time_per_token", "Time per token (decode)", "ms", per_token, false },
        { "decode_tokens_per_s", "Decode rate", "tok/s", decode_rate, true },
        { "prefill_tokens_per_s", "Prefill rate", "tok/s", prefill_rate, true },
        { "preprocess", "Preprocessing", "ms", preprocess, false },
        { "end_to_end", "Preprocessing, prefill and decode", "ms", whole, false },
    };
    r->figures = xcalloc(COUNTOF(rows) + 2, sizeof *r->figures);
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        double *v = over_repeats(run, rows[i].of);
        vec_push(&r->owned, (char *)v);
        r->figures[i] = (struct report_figure){ .key = rows[i].key,
                                                .name = rows[i].name,
                                                .unit = rows[i].unit,
                                                .values = v,
                                                .n = run->result->nrepeats,
                                                .larger_is_better = rows[i].larger };
    }
    r->in.figures = r->figures;
    r->in.nfigures = COUNTOF(rows);
    fill_energy(r, run);
    fill_peak_memory(r, run);
}

/* ---- words */

static void say_recording_cost(struct profile_results *r) {
    struct strbuf line = STRBUF_INIT;
    for (size_t i = 0; i < r->nstages; i++) {
        double over = r->timings[i].recording_cost - 1;
        if (isnan(over)) continue;
        strbuf_addf(&line, "%s%s %+.1f%%", line.len ? ", " : "", r->timings[i].stage, over * 100);
        if (over > ADVISE_ABOVE && !r->timings[i].parent)
            strlist_add(&r->problems,
                        "The recorded run of %s was %.0f%% slower than the timed repeats: gaps and times of "
                        "operators in it are "
                        "too large. profiling=min records less.",
                        r->timings[i].stage, over * 100);
    }
    if (line.len) {
        log_info("recording cost (representative run against timed median): %s", line.buf);
        strlist_add(&r->assumptions,
                    "The representative run against the timed median, same input: %s. Latencies come from "
                    "the timed repeats alone.",
                    line.buf);
    }
    strbuf_free(&line);
}

static void say_assumptions(struct profile_results *r, const struct profile_run *run) {
    const struct profile_plan *p = run->plan;
    struct strlist *a = &r->assumptions;
    strlist_add(a, "Peaks: %s%s%s.",
                run->peak->source[0] ? run->peak->source : "none known, so MFU, MBU and floors are not given",
                run->peak->detail[0] ? "; " : "", run->peak->detail);
    strlist_add(a, "A multiply-add counts 2 FLOPs; matrix products, convolutions and attention count, "
                   "causal attention by its real context.");
    strlist_add(a, "Bytes are the fewest that must move: each weight touched once a forward pass, the KV "
                   "cache read and written, inputs and outputs once.");
    if (p->model && p->model->text.experts)
        strlist_add(a, "Bytes of experts: E(1-(1-k/E)^T) of E experts are touched by T tokens, on average, "
                       "if routing is even.");
    if (p->s.infer.ignore_eos)
        strlist_add(a, "End tokens were ignored, so that every repeat makes the same number of tokens.");
    if (!p->s.infer.do_sample) strlist_add(a, "Tokens were chosen greedily.");
    if (run->result->loaded && run->result->info.weights &&
        strncmp(run->result->info.weights, "synthetic", 9) == 0)
        strlist_add(a, "Weights are random (%s): times are real, answers mean nothing.",
                    run->result->info.weights);
    strlist_add(a, "Image stages are parts of prefill and are never added to it.");
    for (size_t i = 0; p->model && i < p->model->nnotes; i++) strlist_add(a, "%s", p->model->notes[i]);
    if (!p->model) strlist_add(a, "What the model must cost is not known: %s.", p->model_note.msg);
}

static void say_problems(struct profile_results *r, const struct profile_run *run) {
    const struct session_result *res = run->result;
    for (size_t i = 0; i < res->problems.n; i++) strlist_add(&r->problems, "%s", res->problems.v[i]);
    if (res->restarts)
        strlist_add(&r->problems, "The engine was restarted %u time%s.", res->restarts,
                    res->restarts == 1 ? "" : "s");
    if (res->done < res->nrepeats)
        strlist_add(&r->problems, "%zu of %zu timed repeats have a result.", res->done, res->nrepeats);
    for (size_t i = 0; i < r->nstages; i++) {
        struct stats s = stats_of(r->timings[i].ms, r->timings[i].n);
        if (!r->timings[i].parent && s.cv > 0.05)
            strlist_add(
                &r->problems,
                "Unstable: %s varies by %.1f%% (CV) over the repeats; differences of that size mean nothing.",
                r->timings[i].stage, s.cv * 100);
    }
}

/* ---- the trace of the representative run */

static struct timeline *load_traces(const char *run_dir, struct profile_results *r, struct strlist *paths) {
    char *dir = file_join(run_dir, "trace");
    struct err err;
    trace_files_add(paths, dir);
    struct timeline *tl = paths->n ? timeline_load((const char *const *)paths->v, paths->n, &err) : NULL;
    if (paths->n && !tl) strlist_add(&r->problems, "The trace could not be read: %s", err.msg);
    if (!paths->n)
        strlist_add(&r->problems,
                    "The representative run left no trace: there are no operators and kernels to show.");
    free(dir);
    return tl;
}

/* Costs and tokens of the recorded request. */
static void fill_recorded(struct profile_results *r, const struct profile_run *run) {
    const struct session_repeat *rep = &run->result->representative;
    r->costs = xcalloc(r->nstages, sizeof *r->costs);
    r->tokens = xcalloc(r->nstages, sizeof *r->tokens);
    for (size_t i = 0; i < r->nstages; i++) {
        const char *stage = r->timings[i].stage;
        double tokens = stage_tokens(answer_of(rep), stage);
        bool reads = reads_tokens(stage);
        struct llm_cost c = { .flops = NAN, .bytes = NAN, .floor_s = NAN };
        if (rep->done) profile_cost(run->plan, run->peak, &run->images[rep->item], stage, &rep->answer, &c);
        r->costs[i] = (struct analyze_cost){
            .stage = stage, .flops = c.flops, .bytes = c.bytes, .floor_ns = c.floor_s * 1e9
        };
        r->tokens[i] = (struct analyze_tokens){ stage, reads ? tokens : NAN, reads ? NAN : tokens };
    }
}

static void fill_analysis(struct profile_results *r, const struct profile_run *run) {
    struct strlist paths = { 0 };
    r->timeline = load_traces(run->run_dir, r, &paths);
    if (r->timeline) report_trace_problems(r->timeline, &r->problems);
    fill_recorded(r, run);
    r->analyze = (struct analyze_input){ .costs = r->costs,
                                         .ncosts = r->nstages,
                                         .timings = r->timings,
                                         .ntimings = r->nstages,
                                         .tokens = r->tokens,
                                         .ntokens = r->nstages,
                                         .one_run = true,
                                         .peak_flops_per_s = run->peak->peak.flop_per_s,
                                         .peak_bytes_per_s = run->peak->peak.bytes_per_s,
                                         .peak_source = run->peak->source,
                                         .model = run->plan->model_name };
    analyze_run(r->timeline, &r->analyze, &r->analysis);
    if (r->timeline) report_keep_request(&paths, &r->analyze, &r->timeline, &r->analysis);
    strlist_free(&paths);
    r->in.analysis = &r->analysis;
    r->in.timeline = r->timeline;
}

/* ---- provenance and answers */

static void fill_env(struct profile_results *r, const struct env *env) {
    r->env = xcalloc(env->n + 1, sizeof *r->env);
    for (size_t i = 0; i < env->n; i++)
        r->env[i] =
            (struct report_kv){ .group = env->v[i].group, .key = env->v[i].key, .value = env->v[i].value };
    r->in.env = r->env;
    r->in.nenv = env->n;
}

/* One a distinct input: the first repeat that worked, else the first that failed. */
static void fill_answers(struct profile_results *r, const struct profile_run *run) {
    const struct session_result *res = run->result;
    const struct dataset *d = &run->plan->dataset;
    r->answers = xcalloc(d->n + 1, sizeof *r->answers);
    for (size_t item = 0; item < d->n; item++) {
        const struct session_repeat *best = NULL;
        for (size_t i = 0; i < res->nrepeats; i++) {
            const struct session_repeat *rep = &res->repeats[i];
            if (rep->item != item || (!rep->done && !rep->error)) continue;
            if (!best || (rep->done && !best->done)) best = rep;
        }
        if (!best) continue;
        const struct engine_answer *a = answer_of(best);
        r->answers[r->in.nanswers++] =
            (struct report_answer){ .input = d->v[item].name,
                                    .prompt = d->v[item].prompt ? d->v[item].prompt : run->plan->s.prompt,
                                    .text = a->text,
                                    .error = best->error,
                                    .prompt_tokens = a->prompt_tokens,
                                    .new_tokens = a->new_tokens,
                                    .ms = whole(a) };
    }
    r->in.answers = r->answers;
    r->in.answers_total = r->in.nanswers;
}

void profile_results_open(struct profile_results *r, const struct profile_run *run) {
    const struct profile_plan *p = run->plan;
    const struct session_result *res = run->result;
    const char *dtype = res->loaded && res->info.dtype ? res->info.dtype
                        : p->model                     ? llm_dtype_name(p->model->dtype)
                                                       : NULL;
    memset(r, 0, sizeof *r);
    report_input_init(&r->in);
    r->title = xasprintf("%s%s%s%s on %s", p->model_name, dtype ? " (" : "", dtype ? dtype : "",
                         dtype ? ")" : "", p->device.cuda ? p->device.name : run->peak->device);
    r->in.run_id = run->run_id;
    r->in.title = r->title;
    r->in.model = p->model_name;
    r->in.engine = p->s.engine.name;
    r->in.command = run->command;
    r->in.version = run->version;
    r->in.started_wall_ns = run->started_wall_ns;
    r->in.config = run->config_yaml;
    r->in.top = (size_t)p->s.profiling.top_k;
    r->in.repeats = res->nrepeats;
    r->in.failed_repeats = res->failed;
    r->in.incomplete = res->interrupted || res->gave_up || !res->representative.done;
    r->in.peak = (struct report_peak){ .device = run->peak->device,
                                       .type = run->peak->type,
                                       .source = run->peak->source,
                                       .flops_per_s = run->peak->peak.flop_per_s,
                                       .bytes_per_s = run->peak->peak.bytes_per_s };
    fill_stages(r, run);
    fill_figures(r, run);
    say_problems(r, run);
    say_recording_cost(r);
    say_assumptions(r, run);
    fill_analysis(r, run);
    fill_env(r, run->env);
    if (p->s.output.predictions) fill_answers(r, run);
    r->in.assumptions = (const char *const *)r->assumptions.v;
    r->in.nassumptions = r->assumptions.n;
    r->in.problems = (const char *const *)r->problems.v;
    r->in.nproblems = r->problems.n;
}

void profile_results_close(struct profile_results *r) {
    analysis_free(&r->analysis);
    timeline_close(r->timeline);
    free(r->works);
    free(r->timed_costs);
    free(r->figures);
    free(r->env);
    free(r->answers);
    free(r->costs);
    free(r->timings);
    free(r->tokens);
    free(r->failed);
    free(r->title);
    strlist_free(&r->assumptions);
    strlist_free(&r->problems);
    strlist_free(&r->owned);
}
