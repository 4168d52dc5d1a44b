#include "ranks/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "llm/gpus.h"
#include "ranks/sums.h"

static const struct rank_cost unknown = { NAN, NAN, NAN, NAN, NAN, NAN };

static size_t stage_named(const struct rank_job *job, const char *name) {
    for (size_t i = 0; i < job->nstages; i++)
        if (job->stages[i].parent == RANK_NONE && job->stages[i].name &&
            strcmp(job->stages[i].name, name) == 0)
            return i;
    return SIZE_MAX;
}

/* Returns the peaks of a rank's GPU for the model's data types; peaks given by the user replace them. NaN:
 * unknown. */
static struct llm_peak peak_of(const struct rank_row *r, const struct llm_model *m,
                               const struct rank_peaks *given) {
    struct err err;
    const struct llm_gpu *gpu = r->device && !strchr(r->device, ',') ? llm_gpu_find(r->device, &err) : NULL;
    struct llm_peak peak = { gpu ? llm_gpu_flop_per_s(gpu, m->dtype) : NAN,
                             gpu ? llm_gpu_bytes_per_s(gpu) : NAN, 0 };
    if (gpu && m->pack.type)
        peak.quantized_flop_per_s = llm_gpu_peak(gpu, m->pack.type, m->pack.activations).flop_per_s;
    if (given->flop_per_s > 0) peak = (struct llm_peak){ given->flop_per_s, peak.bytes_per_s, 0 };
    if (given->bytes_per_s > 0) peak.bytes_per_s = given->bytes_per_s;
    return peak;
}

/* Returns the number of keys of a decode step: the mean prompt, half of the tokens that a request generates,
 * and the new token. NaN: no prompts of known length. */
static double usual_context(const struct rank_cell *prefill, const struct rank_cell *decode) {
    if (!prefill || !(prefill->tokens_in > 0)) return NAN;
    double requests = prefill->tokens_out > 0 ? prefill->tokens_out : (double)prefill->occurrences;
    if (!(requests > 0)) return NAN;
    double generated = decode->tokens_out > 0 ? decode->tokens_out / requests : 0;
    return prefill->tokens_in / requests + generated / 2 + 1;
}

/* Returns the cost of all prefills of one rank. */
static struct llm_cost prefill_cost(const struct llm_model *part, const struct llm_setup *setup,
                                    const struct rank_cell *c) {
    double n = (double)c->occurrences, sequences = c->tokens_out > 0 ? fmax(1, round(c->tokens_out / n)) : 1;
    uint64_t tokens = (uint64_t)llround(c->tokens_in / n / sequences);
    struct llm_cost cost = llm_cost_prefill(part, setup, (uint64_t)sequences, tokens, 0);
    llm_cost_scale(&cost, n);
    return cost;
}

/* Returns the cost of all decode steps of one rank. If an occurrence has several tokens, it is a step of a
 * batch or the generation of one sequence. Both have about the same FLOPs but different bytes, so bytes and
 * roofline time are NaN. */
static struct llm_cost decode_cost(const struct llm_model *part, const struct llm_setup *setup,
                                   const struct rank_cell *c, double context) {
    double n = (double)c->occurrences, each = c->tokens_out / n;
    struct llm_cost cost =
        llm_cost_decode(part, setup, (uint64_t)fmax(1, round(each)), (uint64_t)llround(context));
    if (each > 1.5) cost.bytes = cost.floor_s = NAN;
    llm_cost_scale(&cost, n);
    return cost;
}

static struct rank_cost cell_cost(const struct llm_model *part, const struct llm_setup *setup,
                                  const struct rank_cell *c, double context, bool decode) {
    double tokens = decode ? c->tokens_out : c->tokens_in;
    if (!c->present || !c->occurrences || !(tokens > 0) || (decode && isnan(context))) return unknown;
    struct llm_cost cost = decode ? decode_cost(part, setup, c, context) : prefill_cost(part, setup, c);
    double wall_s = c->wall_ns * 1e-9;
    return (struct rank_cost){ cost.flops,
                               cost.bytes,
                               cost.floor_s * 1e9,
                               llm_utilization(cost.flops, wall_s, cost.flops / cost.compute_s),
                               llm_utilization(cost.bytes, wall_s, setup->peak.bytes_per_s),
                               NAN };
}

static void add_rank(const struct rank_job *job, size_t row, const struct llm_model *part,
                     const struct rank_peaks *given, struct rank_costs *out) {
    size_t prefill = stage_named(job, "prefill"), decode = stage_named(job, "decode");
    struct llm_setup setup = { .peak = peak_of(&job->ranks[row], part, given) };
    const struct rank_cell *p = prefill != SIZE_MAX ? rank_job_cell(job, row, prefill) : NULL;
    const struct rank_cell *d = decode != SIZE_MAX ? rank_job_cell(job, row, decode) : NULL;
    if (p) out->cells[row * job->nstages + prefill] = cell_cost(part, &setup, p, NAN, false);
    if (d) out->cells[row * job->nstages + decode] = cell_cost(part, &setup, d, usual_context(p, d), true);
}

/* Sums a stage over the ranks. MFU and MBU are means weighted by the wall time of each rank. */
static void sum_stage(const struct rank_job *job, size_t stage, struct rank_costs *out) {
    struct rank_cost sum = { 0 };
    double wall = 0;
    for (size_t r = 0; r < job->nranks; r++) {
        const struct rank_cell *c = rank_job_cell(job, r, stage);
        const struct rank_cost *k = &out->cells[r * job->nstages + stage];
        if (!c->present) continue;
        sum.flops += k->flops;
        sum.bytes += k->bytes;
        sum.floor_ns += k->floor_ns;
        sum.mfu += k->mfu * c->wall_ns;
        sum.mbu += k->mbu * c->wall_ns;
        wall += c->wall_ns;
    }
    sum.mfu /= wall;
    sum.mbu /= wall;
    sum.floor_each_ns = sum.floor_ns / rank_stage_sum(job, stage).occurrences;
    out->job[stage] = wall > 0 ? sum : unknown;
}

static bool knows_pipeline_stage(const struct rank_job *job, const struct rank_layout *layout) {
    for (size_t r = 0; r < job->nranks; r++)
        if (layout->places[r].pp != RANK_NONE) return true;
    return false;
}

/* Returns why all ratios are unknown; NULL: some are known. */
static const char *missing_data(const struct rank_job *job, const struct rank_layout *layout,
                                const struct rank_costs *c) {
    bool flops = false;
    if (!knows_pipeline_stage(job, layout))
        return "the pipeline stages of the ranks are unknown: give --tp, --pp and --dp";
    for (size_t i = 0; i < job->nranks * job->nstages; i++) {
        if (!isnan(c->cells[i].mfu)) return NULL;
        flops |= !isnan(c->cells[i].flops);
    }
    return flops ? "the peaks of the GPUs are unknown: use --peak-tflops and --peak-gbps"
                 : "the traces have no tokens of prefill and decode";
}

static char *reason(const struct rank_layout *layout, const struct llm_model *m) {
    struct err err;
    if (!m) return xstrdup("no model was given: use --model");
    if (!layout->source) return xasprintf("the layout is unknown: %s", layout->why);
    if (llm_layout_check(m, &layout->sizes, &err) < 0) return xstrdup(err.msg);
    if (!m->decodes) return xstrdup("the model has no decoder");
    return NULL;
}

void rank_costs_find(const struct rank_job *job, const struct rank_layout *layout, const struct llm_model *m,
                     const struct rank_peaks *given, struct rank_costs *out) {
    size_t n = job->nranks * job->nstages;
    *out = (struct rank_costs){ .cells = xcalloc(MAX(1, n), sizeof *out->cells),
                                .job = xcalloc(MAX(1, job->nstages), sizeof *out->job),
                                .why = reason(layout, m) };
    for (size_t i = 0; i < n; i++) out->cells[i] = unknown;
    for (size_t i = 0; i < job->nstages; i++) out->job[i] = unknown;
    if (out->why) return;
    for (uint64_t stage = 0; stage < layout->sizes.pp; stage++) {
        struct llm_model *part = llm_shard_new(m, &layout->sizes, stage);
        for (size_t r = 0; r < job->nranks; r++)
            if (layout->places[r].pp == stage && job->ranks[r].state != RANK_STATE_MISSING)
                add_rank(job, r, part, given, out);
        llm_shard_free(part);
    }
    for (size_t i = 0; i < job->nstages; i++) sum_stage(job, i, out);
    const char *why = missing_data(job, layout, out);
    if (why) out->why = xstrdup(why);
}

void rank_costs_free(struct rank_costs *c) {
    free(c->cells);
    free(c->job);
    free(c->why);
    *c = (struct rank_costs){ 0 };
}
