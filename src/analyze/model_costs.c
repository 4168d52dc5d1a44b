/* Computes the costs of the stages from the input's model and the trace's token counts. Costs are means over
 * the GPUs that share the model. The number of sequences per step comes from recognised steps or from the
 * server's labels. Without either, one sequence at a time is assumed. */
#include <math.h>
#include <string.h>

#include "analyze/internal.h"
#include "analyze/rank_groups.h"
#include "llm/cost.h"
#include "llm/gpus.h"
#include "llm/shard.h"

static const struct analysis_stage *find_stage(const struct analysis *a, const char *name) {
    for (size_t i = 0; i < a->nstages; i++)
        if (strcmp(a->stages[i].name, name) == 0) return &a->stages[i];
    return NULL;
}

static uint64_t per_occurrence(double tokens, const struct analysis_stage *s) {
    return tokens > 0 && s->occurrences ? (uint64_t)(tokens / (double)s->occurrences + 0.5) : 0;
}

/* Returns the cost of decode per token. The context grows with each token of a request. The number of tokens
 * per request is the mean per occurrence or, if each occurrence is a single step, the mean per prefill. */
static struct analyze_cost decode_cost(const struct llm_shards *shards, const struct llm_setup *setup,
                                       uint64_t prompt, const struct analysis_stage *decode,
                                       uint64_t requests) {
    uint64_t steps = (uint64_t)decode->tokens_out, each = per_occurrence(decode->tokens_out, decode);
    if (each <= 1 && steps > requests) each = steps / requests;
    struct llm_cost cost = llm_shards_generate(shards, setup, 1, prompt + 1, each ? each : 1);
    double n = each ? (double)each : 1, peak = cost.flops / cost.compute_s;
    return (struct analyze_cost){ .stage = "decode",
                                  .per_token = true,
                                  .flops = cost.flops / n,
                                  .bytes = cost.bytes / n,
                                  .floor_ns = cost.floor_s * 1e9 / n,
                                  .peak_flops_per_s = peak,
                                  .step_bytes = cost.bytes / n };
}

struct llm_peak model_peak(const struct context *c, const struct llm_model *m) {
    struct llm_peak peak = { type_peak(c, m->dtype), c->a->peak_bytes_per_s, 0 };
    if (c->in->gpu && m->pack.type)
        peak.quantized_flop_per_s = llm_gpu_peak(c->in->gpu, m->pack.type, m->pack.activations).flop_per_s;
    return peak;
}

/* Returns the assumed number of keys per sequence of a decode step: the mean prompt length, half of the
 * tokens that a request generates, and the new token. NaN: the trace has no prompts of known length. */
static double usual_context(const struct analysis *a) {
    const struct analysis_stage *prefill = find_stage(a, "prefill"), *decode = find_stage(a, "decode");
    if (!prefill || !(prefill->tokens_out > 0) || !(prefill->tokens_in > 0)) return NAN;
    double generated = decode && decode->tokens_out > 0 ? decode->tokens_out / prefill->tokens_out : 0;
    return prefill->tokens_in / prefill->tokens_out + generated / 2 + 1;
}

double recognised_context(const struct analysis *a, const struct recognised_step *s) {
    double middle = (s->context_least + s->context_most) / 2, usual = usual_context(a);
    if (isfinite(s->context)) return s->context;
    return isfinite(middle) && !(usual >= s->context_least && usual <= s->context_most) ? middle : usual;
}

struct kind_cost { /* sums over the steps of one kind */
    struct llm_cost cost;
    double steps, tokens;
};

static void add_step_cost(const struct context *c, const struct llm_shards *shards,
                          const struct recognised_step *s, struct kind_cost *sum) {
    struct llm_setup setup = { .peak = model_peak(c, shards->parts[0]) };
    double context = recognised_context(c->a, s);
    uint64_t batch = (uint64_t)s->requests, each = (uint64_t)(s->tokens / s->requests);
    if (s->kind == STEP_DECODE && isnan(context)) return;
    struct llm_cost cost = s->kind == STEP_DECODE
                               ? llm_shards_decode(shards, &setup, batch, (uint64_t)llround(fmax(context, 1)))
                               : llm_shards_prefill(shards, &setup, batch, each, 0);
    llm_cost_add(&sum->cost, &cost);
    sum->steps++;
    sum->tokens += s->requests;
}

/* Computes the costs of prefill (per step) and decode (per token) from the recognised steps. Returns the
 * number of rows. */
static size_t recognised_rows(const struct context *c, const struct llm_shards *shards,
                              struct analyze_cost *out) {
    const struct analysis *a = c->a;
    struct kind_cost prefill = { 0 }, decode = { 0 };
    size_t n = 0;
    for (size_t i = 0; i < a->recognition.nsteps; i++) {
        const struct recognised_step *s = &a->recognition.steps[i];
        if (s->warm_up || !(s->tokens >= 1) || !(s->requests >= 1)) continue;
        if (s->kind == STEP_PREFILL) add_step_cost(c, shards, s, &prefill);
        if (s->kind == STEP_DECODE) add_step_cost(c, shards, s, &decode);
    }
    if (prefill.steps > 0)
        out[n++] = (struct analyze_cost){ .stage = "prefill",
                                          .flops = prefill.cost.flops / prefill.steps,
                                          .bytes = prefill.cost.bytes / prefill.steps,
                                          .floor_ns = prefill.cost.floor_s * 1e9 / prefill.steps,
                                          .peak_flops_per_s = prefill.cost.flops / prefill.cost.compute_s };
    if (decode.tokens > 0)
        out[n++] = (struct analyze_cost){ .stage = "decode",
                                          .per_token = true,
                                          .flops = decode.cost.flops / decode.tokens,
                                          .bytes = decode.cost.bytes / decode.tokens,
                                          .floor_ns = decode.cost.floor_s * 1e9 / decode.tokens,
                                          .peak_flops_per_s = decode.cost.flops / decode.cost.compute_s,
                                          .step_bytes = decode.cost.bytes / decode.steps };
    return n;
}

/* ---- steps with labels of a server: each has its own number of sequences and tokens */

static bool has_labels(const struct analysis_stage *s) {
    return s && s->token_source && strcmp(s->token_source, "range labels") == 0;
}

/* Adds the cost of one step. A step generates one token per sequence. Adds nothing and returns false if the
 * step is unfinished, or if its number of sequences, tokens or keys is unknown. */
static bool add_step(const struct context *c, const struct llm_shards *shards,
                     const struct analysis_occurrence *o, struct llm_cost *sum) {
    struct llm_setup setup = { .peak = model_peak(c, shards->parts[0]) };
    bool decode = strcmp(c->a->stages[o->stage].name, "decode") == 0;
    double batch = o->tokens_out, each = o->tokens_in / batch;
    double keys = o->keys > 0 ? o->keys / batch : decode ? usual_context(c->a) : each;
    if (o->unfinished || !(batch >= 1) || !(each >= 1) || !(keys >= each)) return false;
    uint64_t n = (uint64_t)llround(batch), tokens = (uint64_t)llround(each);
    struct llm_cost cost = llm_shards_prefill(shards, &setup, n, tokens, (uint64_t)llround(keys) - tokens);
    llm_cost_add(sum, &cost);
    return true;
}

/* Computes the mean cost of the steps of a stage. If it is unknown, adds a note and returns false. */
static bool labelled_cost(struct context *c, const struct llm_shards *shards, const struct analysis_stage *s,
                          struct analyze_cost *out) {
    const struct analysis *a = c->a;
    struct llm_cost sum = { 0 };
    double n = 0;
    for (size_t i = 0; i < a->noccurrences; i++)
        if (&a->stages[a->occurrences[i].stage] == s) n += add_step(c, shards, &a->occurrences[i], &sum);
    if (!n) {
        analysis_note(
            c, ANALYSIS_WARNING,
            "%s: no MFU, MBU or roofline time: the labels of its steps do not contain the number of "
            "sequences, tokens and keys, and the trace contains no prompts of known length",
            s->name);
        return false;
    }
    *out = (struct analyze_cost){ .stage = s->name,
                                  .flops = sum.flops / n,
                                  .bytes = sum.bytes / n,
                                  .floor_ns = sum.floor_s * 1e9 / n,
                                  .peak_flops_per_s = sum.flops / sum.compute_s,
                                  .step_bytes = sum.bytes / n,
                                  .experts_assumed = shards->parts[0]->text.experts > 0 };
    return true;
}

static size_t labelled_rows(struct context *c, const struct llm_shards *shards, struct analyze_cost *out) {
    static const char *const names[] = { "prefill", "decode" };
    size_t n = 0;
    for (size_t i = 0; i < 2; i++) {
        const struct analysis_stage *s = find_stage(c->a, names[i]);
        if (has_labels(s) && labelled_cost(c, shards, s, &out[n])) n++;
    }
    return n;
}

/* ---- all other programs */

static size_t model_rows(const struct context *c, const struct llm_shards *shards, struct analyze_cost *out) {
    const struct analysis *a = c->a;
    struct llm_setup setup = { .peak = model_peak(c, shards->parts[0]) };
    const struct analysis_stage *prefill = find_stage(a, "prefill"), *decode = find_stage(a, "decode");
    uint64_t prompt = prefill ? per_occurrence(prefill->tokens_in, prefill) : 0;
    size_t n = 0;
    if (!prompt) return 0;
    struct llm_cost cost = llm_shards_prefill(shards, &setup, 1, prompt, 0);
    double peak = cost.flops / cost.compute_s;
    out[n++] = (struct analyze_cost){ .stage = "prefill",
                                      .flops = cost.flops,
                                      .bytes = cost.bytes,
                                      .floor_ns = cost.floor_s * 1e9,
                                      .peak_flops_per_s = peak,
                                      .step_bytes = cost.bytes,
                                      .experts_assumed = shards->parts[0]->text.experts && prompt > 1 };
    if (decode && decode->tokens_out >= 1)
        out[n++] =
            decode_cost(shards, &setup, prompt, decode, prefill->occurrences ? prefill->occurrences : 1);
    return n;
}

/* Returns the largest world size of the processes; 0: unknown. */
static uint32_t world_size(const struct timeline *tl) {
    uint32_t n = 0;
    for (size_t i = 0; i < tl->nprocesses; i++)
        if (tl->processes[i].world_size != TIMELINE_NONE && tl->processes[i].world_size > n)
            n = tl->processes[i].world_size;
    return n;
}

/* Finds how the GPUs share the model: from the input, else from the process groups of the trace. Returns
 * NULL, or the reason why this is unknown. GPUs that do not communicate each have a complete copy. */
static const char *find_split(struct context *c, struct rank_split *out) {
    const struct analyze_input *in = c->in;
    double communication = 0;
    const char *why;
    *out = (struct rank_split){ in->tp, in->pp, in->ep, in->dp };
    if (in->tp || in->pp || in->ep || in->dp || !c->tl || rank_groups_split(c, out, &why)) return NULL;
    if (why) return why;
    for (size_t i = 0; i < c->a->ndevices; i++) communication += c->a->devices[i].communication_ns;
    uint32_t ranks = world_size(c->tl);
    if (!(communication > 0) || ranks == 1) return NULL;
    return ranks ? analysis_text(c,
                                 "the trace is of a job with %u ranks that communicate, but does not contain "
                                 "how they share the model: give --tp, --pp or --ep",
                                 ranks)
                 : "GPUs communicate in the trace, which does not contain how they share the model: give "
                   "--tp, --pp or --ep";
}

/* If the degree of data parallelism is not given and ep > tp, the additional GPUs count as replicas. */
static struct llm_layout layout_of(const struct rank_split *r) {
    struct llm_layout l = llm_layout_of(r->tp, r->pp, r->ep, r->dp);
    if (!r->dp && l.ep > l.tp) l.dp = (l.ep + l.tp - 1) / l.tp;
    return l;
}

/* Returns why the model in the program's files cannot be the model that ran. NULL: the trace agrees or has no
 * steps, or the user gave the model. */
static const char *disagrees(struct context *c, const struct llm_model *m) {
    const struct recognition *r = &c->a->recognition;
    if (!c->in->llm_from || !r->nsteps) return NULL;
    if (!r->llm) return "the trace does not look like that of a language model";
    if (r->other_layers) return "the steps of the trace are those of two models: give --model";
    if (r->layers && m->decodes && r->layers != m->text.layers)
        return analysis_text(c, "the model has %u layers, but the steps of the trace have %u: give --model",
                             m->text.layers, r->layers);
    return NULL;
}

/* A model given by the user is used in any case. Stages of a pipeline contain a part of the layers. */
static void warn_of_layers(struct context *c, const struct llm_model *m, const struct rank_split *split) {
    const struct recognition *r = &c->a->recognition;
    if (c->in->llm_from || c->in->one_run || !r->llm || !r->layers || !m->decodes || split->pp > 1) return;
    if (r->layers != m->text.layers)
        analysis_note(c, ANALYSIS_WARNING,
                      "%s has %u layers, but the steps of the trace have %u: check --model", m->name,
                      m->text.layers, r->layers);
}

static const char *why_no_rows(const struct analysis *a, const struct llm_model *m) {
    if (!m->decodes) return "the model has no decoder";
    if (has_labels(find_stage(a, "mixed")))
        return "its steps read prompts and generate tokens at the same time, and costs are only computed for "
               "steps "
               "that do one of both";
    return "the trace does not contain the number of tokens of prefill and decode";
}

void analyze_costs(struct context *c) {
    struct analysis *a = c->a;
    const struct llm_model *m = c->in->llm;
    a->costs = c->in->costs;
    a->ncosts = c->in->ncosts;
    a->model = c->in->model;
    if (!m) return;
    struct rank_split split = { 0 };
    struct err err;
    a->no_model_costs = disagrees(c, m);
    if (!a->no_model_costs) a->no_model_costs = find_split(c, &split);
    struct llm_layout layout = layout_of(&split);
    if (!a->no_model_costs && llm_layout_check(m, &layout, &err) < 0)
        a->no_model_costs = analysis_text(c, "%s", err.msg);
    if (a->no_model_costs) {
        analysis_note(c, ANALYSIS_WARNING, "no MFU, MBU or roofline time: %s", a->no_model_costs);
        return;
    }
    struct analyze_cost *rows = analysis_alloc(c, 2, sizeof *rows);
    bool labelled = has_labels(find_stage(a, "prefill")) || has_labels(find_stage(a, "decode"));
    struct llm_shards shards = llm_shards_new(m, &layout);
    size_t n = !m->decodes     ? 0
               : a->recognised ? recognised_rows(c, &shards, rows)
               : labelled      ? labelled_rows(c, &shards, rows)
                               : model_rows(c, &shards, rows);
    llm_shards_free(&shards);
    if (!n) {
        a->no_model_costs = why_no_rows(a, m);
        if (!c->in->llm_from)
            analysis_note(c, ANALYSIS_WARNING, "no MFU, MBU or roofline time: %s", a->no_model_costs);
        return;
    }
    warn_of_layers(c, m, &split);
    a->costs = rows;
    a->ncosts = n;
    a->costs_replaced = true;
    a->model = m->name;
    if (c->in->llm_from)
        analysis_note(c, ANALYSIS_INFO, "the model is %s, by the files that the program used: %s", m->name,
                      c->in->llm_from);
}
