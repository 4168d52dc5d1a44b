#include "run/profiled.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "run/ncu_profiles.h"
#include "run/profiled_internal.h"
#include "run/trace_facts.h"
#include "trace/reader_files.h"

/* ---- trace of the representative run */

static struct timeline *load_traces(const char *run_dir, struct profiled_run *r) {
    char *dir = file_join(run_dir, "trace");
    struct strlist paths = { 0 };
    struct err err;
    trace_files_add(&paths, dir);
    struct timeline *tl = paths.n ? timeline_load((const char *const *)paths.v, paths.n, &err) : NULL;
    if (paths.n && !tl) strlist_add(&r->warnings, "Cannot read the trace: %s", err.msg);
    if (!paths.n)
        strlist_add(&r->warnings,
                    "The representative run wrote no trace, so there are no operators and kernels to show.");
    strlist_free(&paths);
    free(dir);
    return tl;
}

/* Counts the requests that were started and those that failed. Does nothing if none failed. */
static void fill_failures(struct profiled_run *r, const struct session_result *res) {
    const struct session_repeat *first = res->representative.error ? &res->representative : NULL;
    size_t failed = first != NULL, started = res->representative.done || first;
    for (size_t i = 0; i < res->nrepeats; i++) {
        const struct session_repeat *rep = &res->repeats[i];
        if (rep->error && !first) first = rep;
        failed += rep->error != NULL;
        started += rep->done || rep->error;
    }
    if (!first) return;
    r->input.nfailed = failed;
    r->input.nrequests = started;
    r->input.failure = first->error;
}

static void fill_analysis(struct profiled_run *r, const struct profiled_session *session) {
    uint64_t from_ns, to_ns;
    const char *busy = session->result->busy;
    if (busy)
        strlist_add(
            &r->warnings,
            "The machine was busy: %s. Times are too long, and the findings are less certain. Repeat the "
            "run on an idle machine.",
            busy);
    if (busy) { /* the most important caveat: first */
        char *last = r->warnings.v[r->warnings.n - 1];
        memmove(r->warnings.v + 1, r->warnings.v, (r->warnings.n - 1) * sizeof *r->warnings.v);
        r->warnings.v[0] = last;
    }
    r->timeline = load_traces(session->run_dir, r);
    if (r->timeline) run_trace_warnings(r->timeline, &r->warnings);
    profiled_fill_recorded(r, session);
    r->input = (struct analyze_input){ .costs = r->costs,
                                       .ncosts = r->nstages,
                                       .timings = r->timings,
                                       .ntimings = r->nstages,
                                       .tokens = r->tokens,
                                       .ntokens = r->nstages,
                                       .one_run = true,
                                       .peak_flops_per_s = session->peak->peak.flop_per_s,
                                       .peak_bytes_per_s = session->peak->peak.bytes_per_s,
                                       .read_bytes_per_s = session->peak->read_bytes_per_s,
                                       .peak_source = session->peak->source,
                                       .gpu = session->peak->gpu,
                                       .busy = busy,
                                       .model = session->plan->model_name };
    fill_failures(r, session->result);
    if (r->timeline && analyze_request_window(r->timeline, &r->input, &from_ns, &to_ns))
        timeline_cut(r->timeline, from_ns, to_ns);
    analyze_run(r->timeline, &r->input, &r->analysis);
    r->info.analysis = &r->analysis;
    r->info.timeline = r->timeline;
}

/* ---- provenance and answers */

static void fill_env(struct profiled_run *r, const struct env *env) {
    r->env = xcalloc(env->n + 1, sizeof *r->env);
    for (size_t i = 0; i < env->n; i++)
        r->env[i] =
            (struct run_kv){ .group = env->v[i].group, .key = env->v[i].key, .value = env->v[i].value };
    r->info.env = r->env;
    r->info.nenv = env->n;
}

/* One answer per input: the first repeat that succeeded, else the first that failed. */
static void fill_answers(struct profiled_run *r, const struct profiled_session *session) {
    const struct session_result *res = session->result;
    const struct dataset *d = &session->plan->dataset;
    r->answers = xcalloc(d->n + 1, sizeof *r->answers);
    for (size_t item = 0; item < d->n; item++) {
        const struct session_repeat *best = NULL;
        for (size_t i = 0; i < res->nrepeats; i++) {
            const struct session_repeat *rep = &res->repeats[i];
            if (rep->item != item || (!rep->done && !rep->error)) continue;
            if (!best || (rep->done && !best->done)) best = rep;
        }
        if (!best) continue;
        const struct engine_answer *a = profiled_answer(best);
        r->answers[r->info.nanswers++] =
            (struct run_answer){ .input = d->v[item].name,
                                 .prompt = d->v[item].prompt ? d->v[item].prompt : session->plan->s.prompt,
                                 .text = a->text,
                                 .error = best->error,
                                 .prompt_tokens = a->prompt_tokens,
                                 .new_tokens = a->new_tokens,
                                 .ms = profiled_request_ms(a) };
    }
    r->info.answers = r->answers;
    r->info.answers_total = r->info.nanswers;
}

static void fill_model_facts(struct profiled_run *r, const struct profiled_session *session) {
    const struct llm_model *m = session->plan->model;
    const struct engine_info *e = session->result->loaded ? &session->result->info : NULL;
    struct run_model *f = &r->info.facts;
    if (e) {
        f->architecture = e->architecture;
        f->dtype = e->dtype;
        f->parameters = e->parameters;
        f->weight_bytes = e->weight_bytes;
        f->layers = e->layers;
        f->context = e->max_context;
    }
    if (!m) return;
    run_model_facts(m, f);
    f->costs_from = m->assumed ? "assumed family" : "config of the model";
}

static void set_warnings(struct profiled_run *r) {
    r->info.warnings = (const char *const *)r->warnings.v;
    r->info.nwarnings = r->warnings.n;
}

void profiled_run_open(struct profiled_run *r, const struct profiled_session *session) {
    const struct profile_plan *p = session->plan;
    const struct session_result *res = session->result;
    const char *dtype = res->loaded && res->info.dtype ? res->info.dtype
                        : p->model                     ? llm_dtype_name(p->model->dtype)
                                                       : NULL;
    memset(r, 0, sizeof *r);
    run_info_init(&r->info);
    r->title = xasprintf("%s%s%s%s on %s", p->model_name, dtype ? " (" : "", dtype ? dtype : "",
                         dtype ? ")" : "", p->device.cuda ? p->device.name : session->peak->device);
    r->info.run_id = session->run_id;
    r->info.title = r->title;
    r->info.model = p->model_name;
    r->info.engine = p->s.engine.name;
    r->info.command = session->command;
    r->info.version = session->version;
    r->info.started_wall_ns = session->started_wall_ns;
    r->info.config = session->config_yaml;
    r->info.top = (size_t)p->s.profiling.top_k;
    r->info.repeats = res->nrepeats;
    r->info.failed_repeats = res->failed;
    r->info.incomplete = res->interrupted || res->gave_up || !res->representative.done;
    r->info.peak = (struct run_peak){ .device = session->peak->device,
                                      .type = session->peak->type,
                                      .source = session->peak->source,
                                      .flops_per_s = session->peak->peak.flop_per_s,
                                      .bytes_per_s = session->peak->peak.bytes_per_s,
                                      .read_bytes_per_s = session->peak->read_bytes_per_s,
                                      .levels = session->peak->levels };
    fill_model_facts(r, session);
    profiled_fill_stages(r, session);
    profiled_fill_figures(r, session);
    profiled_fill_notes(r, session);
    fill_analysis(r, session);
    fill_env(r, session->env);
    if (p->s.output.predictions) fill_answers(r, session);
    r->info.assumptions = (const char *const *)r->assumptions.v;
    r->info.nassumptions = r->assumptions.n;
    set_warnings(r);
}

void profiled_run_add_tools(struct profiled_run *r, const char *run_dir, const struct strlist *more) {
    r->profiles = r->timeline ? ncu_profiles_load(run_dir, &r->warnings) : NULL;
    r->input.profiles = r->profiles ? r->profiles->v : NULL;
    r->input.nprofiles = r->profiles ? r->profiles->n : 0;
    analysis_set_profiles(&r->analysis, r->input.profiles, r->input.nprofiles);
    for (size_t i = 0; i < more->n; i++) strlist_add(&r->warnings, "%s", more->v[i]);
    set_warnings(r);
}

void profiled_run_close(struct profiled_run *r) {
    analysis_free(&r->analysis);
    timeline_close(r->timeline);
    ncu_profiles_close(r->profiles);
    free(r->works);
    free(r->timed_costs);
    free(r->figures);
    free(r->env);
    free(r->answers);
    free(r->costs);
    free(r->timings);
    free(r->tokens);
    free(r->failed);
    free(r->inputs);
    free(r->repeats);
    free(r->title);
    strlist_free(&r->assumptions);
    strlist_free(&r->warnings);
    strlist_free(&r->owned);
}
