/* Texts about a profiled run: assumptions of its numbers, and warnings about the run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/log.h"
#include "base/stats.h"
#include "run/profiled_internal.h"

#define ADVISE_ABOVE 0.25 /* overhead that is a problem */
#define UNSTABLE_CV 0.05

static void note_recording_cost(struct profiled_run *r) {
    struct strbuf line = STRBUF_INIT;
    for (size_t i = 0; i < r->nstages; i++) {
        double over = r->timings[i].recording_cost - 1;
        if (isnan(over)) continue;
        strbuf_addf(&line, "%s%s %+.1f%%", line.len ? ", " : "", r->timings[i].stage, over * 100);
        if (over > ADVISE_ABOVE && !r->timings[i].parent)
            strlist_add(&r->warnings,
                        "The recorded run of %s was %.0f%% slower than the timed repeats: its gaps and "
                        "operator times are too large. profiling=min records less.",
                        r->timings[i].stage, over * 100);
    }
    if (line.len) {
        log_info("recording overhead (representative run compared with timed median): %s", line.buf);
        strlist_add(&r->assumptions,
                    "The representative run compared with the timed median for the same input: %s. Latencies "
                    "come only from the timed repeats.",
                    line.buf);
    }
    strbuf_free(&line);
}

/* Median over the repeats of the context length for decode FLOPs. */
static double decode_context(const struct profiled_session *session) {
    const struct session_result *res = session->result;
    double *v = xcalloc(res->nrepeats + 1, sizeof *v);
    for (size_t i = 0; i < res->nrepeats; i++)
        v[i] = request_context(&session->plan->s, session->plan->model, &res->info,
                               profiled_answer(&res->repeats[i]));
    double median = stats_of(v, res->nrepeats).median;
    free(v);
    return median;
}

static void note_context(struct profiled_run *r, const struct profiled_session *session) {
    const char *mode = session->plan->s.infer.context_len_mode;
    r->info.context = (struct run_context){ .mode = mode, .tokens = decode_context(session) };
    if (!isfinite(r->info.context.tokens)) return;
    if (strcmp(mode, "auto") == 0)
        strlist_add(&r->assumptions,
                    "Decode FLOPs use the actual context of every step: %.0f tokens on average (prompt + "
                    "half of the new tokens; infer.context_len_mode=auto).",
                    r->info.context.tokens);
    else
        strlist_add(&r->assumptions,
                    "Decode FLOPs and MFU use a context of %.0f tokens (infer.context_len_mode=%s). Bytes, "
                    "MBU and roofline times use the actual context.",
                    r->info.context.tokens, mode);
}

static void note_assumptions(struct profiled_run *r, const struct profiled_session *session) {
    const struct profile_plan *p = session->plan;
    struct strlist *a = &r->assumptions;
    strlist_add(a, "Peaks: %s%s%s.",
                session->peak->source[0] ? session->peak->source
                                         : "unknown, so MFU, MBU and roofline times are not reported",
                session->peak->detail[0] ? "; " : "", session->peak->detail);
    strlist_add(a, "A multiply-add counts as 2 FLOPs. Only matrix products, convolutions and attention are "
                   "counted; causal attention uses the actual context length.");
    strlist_add(a, "Bytes are the minimum: each weight is read once per forward pass, the KV cache is read "
                   "and written, inputs and outputs are moved once.");
    note_context(r, session);
    const struct engine_answer *recorded = profiled_answer(&session->result->representative);
    if (p->model && p->model->text.experts && recorded->prefill_experts > 0)
        strlist_add(a,
                    "Bytes of experts: as the engine routed, a layer reads %.1f different experts in prefill "
                    "and %.1f per decode step.",
                    recorded->prefill_experts, recorded->decode_experts);
    else if (p->model && p->model->text.experts)
        strlist_add(
            a,
            "Bytes of experts: T tokens use E(1-(1-k/E)^T) of E experts on average, assuming even routing.");
    if (p->s.infer.ignore_eos)
        strlist_add(
            a,
            "End-of-sequence tokens were ignored, so that every repeat generates the same number of tokens.");
    if (!p->s.infer.do_sample) strlist_add(a, "Sampling is greedy.");
    if (session->result->loaded && session->result->info.weights &&
        strncmp(session->result->info.weights, "synthetic", 9) == 0)
        strlist_add(a, "Weights are random (%s): times are real, answers are meaningless.",
                    session->result->info.weights);
    strlist_add(a, "Image stages are parts of prefill; their time is included in it.");
    for (size_t i = 0; p->model && i < p->model->nnotes; i++) strlist_add(a, "%s", p->model->notes[i]);
    if (!p->model) strlist_add(a, "The cost of the model is unknown: %s.", p->model_note.msg);
}

static void note_warnings(struct profiled_run *r, const struct profiled_session *session) {
    const struct llm_model *m = session->plan->model;
    if (m && m->assumed)
        strlist_add(&r->warnings,
                    "FLOPs, bytes, MFU and MBU are estimates: they use the formulas of %s (model.assume)%s.",
                    m->assumed,
                    session->plan->s.model.assume ? "" : ", because the config has an unknown architecture");
    const struct session_result *res = session->result;
    for (size_t i = 0; i < res->warnings.n; i++) strlist_add(&r->warnings, "%s", res->warnings.v[i]);
    if (res->restarts)
        strlist_add(&r->warnings, "The engine was restarted %u time%s.", res->restarts,
                    res->restarts == 1 ? "" : "s");
    if (res->done < res->nrepeats)
        strlist_add(&r->warnings, "%zu of %zu timed repeats have a result.", res->done, res->nrepeats);
    for (size_t i = 0; i < r->nstages; i++) {
        double cv = stats_grouped_cv(r->timings[i].ms, r->inputs, r->timings[i].n);
        if (!r->timings[i].parent && cv > UNSTABLE_CV)
            strlist_add(&r->warnings,
                        "Unstable: %s varies by %.1f%% (CV) over the repeats; differences of that size are "
                        "not significant.",
                        r->timings[i].stage, cv * 100);
    }
}

void profiled_fill_notes(struct profiled_run *r, const struct profiled_session *session) {
    note_warnings(r, session);
    note_recording_cost(r);
    note_assumptions(r, session);
}
