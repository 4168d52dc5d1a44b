/* Findings about the work of the GPU (or the CPU). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/counters.h"
#include "analyze/finding.h"
#include "analyze/kernel_profile.h"
#include "analyze/stage_rules.h"
#include "base/units.h"
#include "base/util.h"

static double category_ms(const struct finding_scope *f, enum kernel_category category) {
    return f->s->category_ns[category] * 1e-6 / f->shares;
}

/* Limits the saving to the busy time above the roofline time, if that is known. */
static double bounded(const struct finding_scope *f, double saving_ms) {
    return isnan(f->floor_ms) ? saving_ms : MAX(0, MIN(saving_ms, f->busy_ms - f->floor_ms));
}

static const char *flops_text(struct context *c, double flops) {
    char text[40];
    return analysis_text(c, "%s", units_flops(flops, text, sizeof text));
}

static bool memory_bound(const struct analysis_stage *s) {
    return !(s->flops / s->peak_flops_per_s > s->bytes / s->peak_bytes_per_s);
}

/* Describes the achieved and the peak rate of the resource that bounds the stage: bytes/s for memory,
 * FLOP/s for compute. */
static const char *roof_evidence(struct context *c, const struct finding_scope *f, bool memory,
                                 bool busy_known, double work_ms, const char *source) {
    double amount = memory ? f->s->bytes : f->s->flops,
           peak = memory ? f->s->peak_bytes_per_s : f->s->peak_flops_per_s,
           reached = memory ? f->s->mbu : f->s->mfu, rate = reached * peak * f->wall_ms / work_ms;
    const char *(*text)(struct context *, double) = memory ? finding_bytes : flops_text;
    const char *whole =
        busy_known ? analysis_text(c, " while the GPU is busy, %.1f%% over the whole time", 100 * reached)
                   : "";
    return analysis_text(c, "%s must be %s: %s/s of %s/s achieved, %.1f%%%s; %.1fx the roofline time (%s)",
                         text(c, amount), memory ? "moved" : "done", text(c, rate), text(c, peak),
                         100 * rate / peak, whole, f->s->distance, source);
}

static const char *roof_advice(bool memory, bool on_gpu) {
    if (!on_gpu)
        return memory
                   ? "Read less data, faster: smaller weight types, more threads until the memory is "
                     "saturated, weights on the NUMA node of the cores that use them, more sequences at once."
                   : "Use every core (threads) and the widest SIMD instructions of the CPU, with blocks that "
                     "fit its caches; see the operators furthest from the roof.";
    return memory
               ? "Raise the bandwidth of the large kernels: fewer and larger reads, weights read in one "
                 "pass, fused element-wise work, grouped expert GEMMs, more sequences at once."
               : "Raise the FLOP rate of the large kernels: tensor-core types, larger tiles, fused "
                 "attention, less work outside the matrix products; see the kernels furthest from the roof.";
}

/* A stage below this multiple of its roofline time counts as being at the roof. Good kernels reach about
 * 1.25. */
#define NEAR_THE_ROOF 1.25
/* Returns the scope with the times over all inputs, as in the stage table; an unchanged copy if the stage was
 * not timed. The other rules use the times of the recorded input. */
static struct finding_scope all_inputs(const struct finding_scope *f) {
    const struct analysis_stage *s = f->s;
    struct finding_scope all = *f;
    if (!s->timing_ms.n) return all;
    all.wall_ms = s->time_ms;
    all.floor_ms = s->floor_ms;
    if (s->same_input_ms > 0) all.busy_ms *= s->time_ms / s->same_input_ms;
    return all;
}

void find_roof(struct context *c, const struct finding_rule *rule, const struct finding_scope *recorded) {
    const struct finding_scope all = all_inputs(recorded), *f = &all;
    const struct analysis_stage *s = f->s;
    bool on_gpu = s->kernels && !s->on_cpu, busy_known = on_gpu && !s->joined;
    double work_ms = busy_known ? MIN(f->busy_ms, f->wall_ms) : f->wall_ms;
    if (!(f->floor_ms > 0) || !(work_ms > 0) || !(s->bytes > 0)) return;
    double distance = s->distance, work_distance = distance * work_ms / f->wall_ms;
    bool memory = memory_bound(s);
    const char *roof = memory ? "memory" : "compute", *what = busy_known ? "GPU work" : "time";
    const char *source = c->a->peak_source ? c->a->peak_source : "peaks given";
    if (distance < NEAR_THE_ROOF) {
        finding_emit(c, rule, f, NAN, ANALYSIS_HIGH,
                     analysis_text(c, "%s runs at the %s roof: %.2fx its roofline time of %s", s->name, roof,
                                   distance, finding_time(c, f->floor_ms)),
                     analysis_text(c, "%s must be moved and %s computed (%s)%s%s", finding_bytes(c, s->bytes),
                                   flops_text(c, s->flops), source, s->over.text ? ". " : "",
                                   s->over.text ? s->over.text : ""),
                     memory ? "Only moving less data helps: smaller weight or KV types, larger batches, "
                              "speculative decoding."
                            : "Only less arithmetic or a smaller type helps.");
        return;
    }
    double saving = work_ms - work_ms / work_distance;
    const char *title =
        analysis_inputs_differ(s)
            ? analysis_text(
                  c, "%s: its %s is %.1fx the %s roof, as the median over inputs of different size (%s)",
                  s->name, what, work_distance, roof, finding_time(c, work_ms))
            : analysis_text(c, "%s: its %s (%s) is %.1fx the %s roof of %s", s->name, what,
                            finding_time(c, work_ms), work_distance, roof, finding_time(c, f->floor_ms));
    finding_emit(c, rule, f, saving, ANALYSIS_MEDIUM, title,
                 roof_evidence(c, f, memory, busy_known, work_ms, source), roof_advice(memory, on_gpu));
}

/* Returns the top-level stage that contains the row. */
static uint32_t root_of(const struct context *c, uint32_t row) {
    while (row != ANALYSIS_NONE && c->a->stages[row].parent != ANALYSIS_NONE) row = c->a->stages[row].parent;
    return row;
}

/* Returns the share of the class's owned time in which no other kernel ran on the device. Concurrent
 * kernels use the multiprocessors that the class leaves idle, so only this time could be saved. */
static double alone_share(const struct context *c, const struct analysis_kernel *k) {
    double owned = c->shape_owned_ns[k->shape];
    return owned > 0 ? c->shape_alone_ns[k->shape] / owned : 0;
}

/* Returns the owned time of a kernel class in the stage and its sub-stages; 0 without c.shape_stage_ns. */
static double class_ms(const struct context *c, const struct finding_scope *f,
                       const struct analysis_kernel *k) {
    double ms = 0;
    for (uint32_t r = 0; c->shape_stage_ns && r < c->a->nstages; r++)
        if (root_of(c, r) == f->row)
            ms += c->shape_stage_ns[(size_t)k->shape * c->a->nstages + r] * 1e-6 / f->shares;
    return ms;
}

/* Returns the sum over the kernel classes of the stage of (time alone on the device) x (weight of the class).
 * *all_ms: the same without weights, over classes with a weight above 0. *largest: the class with the largest
 * product. */
static double sum_classes(const struct context *c, const struct finding_scope *f,
                          double (*weight)(const struct context *, const struct analysis_kernel *),
                          double *all_ms, const struct analysis_kernel **largest) {
    double sum = 0, most = 0;
    *all_ms = 0;
    for (size_t i = 0; c->shape_stage_ns && i < c->a->nkernels; i++) {
        const struct analysis_kernel *k = &c->a->kernels[i];
        double part = weight(c, k), ms = class_ms(c, f, k) * alone_share(c, k);
        if (!(part > 0) || !(ms > 0)) continue;
        *all_ms += ms;
        sum += ms * part;
        if (ms * part > most) {
            most = ms * part;
            *largest = k;
        }
    }
    return sum;
}

/* DRAM activity in percent of the peak. From this value on, few blocks already saturate the memory, and more
 * blocks would not help. */
#define DRAM_BUSY_PCT 60
static bool keeps_dram_busy(const struct context *c, const struct analysis_kernel *k) {
    uint32_t row = (uint32_t)(k - c->a->kernels);
    const struct counter_row *r = c->a->counters ? counters_of_kernel(c->a->counters, row) : NULL;
    const struct kernel_profile *p = c->a->profiles ? kernel_profile_of(c->a, row) : NULL;
    return (r && r->dram_pct >= DRAM_BUSY_PCT) || (p && p->value[KERNEL_PROFILE_DRAM] >= DRAM_BUSY_PCT);
}

static double idle_sms(const struct context *c, const struct analysis_kernel *k) {
    uint32_t sms = c->tl->devices[c->tl->shapes[k->shape].device].sms;
    /* communication and waiting kernels use few blocks on purpose */
    if (k->category == KERNEL_CATEGORY_COMMUNICATION || k->category == KERNEL_CATEGORY_WAIT) return 0;
    if (keeps_dram_busy(c, k)) return 0;
    return k->blocks && sms && k->blocks < sms ? 1 - (double)k->blocks / sms : 0;
}

void find_small_grids(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    const struct analysis_kernel *k = NULL;
    double all, ms = sum_classes(c, f, idle_sms, &all, &k);
    if (!k || ms < 0.05 * f->busy_ms) return;
    uint32_t sms = c->tl->devices[c->tl->shapes[k->shape].device].sms;
    const char *title =
        analysis_text(c, "%s: %s in grids that do not fill the GPU", f->s->name, finding_time(c, all));
    const char *evidence =
        analysis_text(c, "most of it in %s: %s block%s on %u multiprocessors, %s calls of %.1f us",
                      k->short_name, analysis_count(c, k->blocks), k->blocks == 1 ? "" : "s", sms,
                      analysis_count(c, k->calls), k->mean_ns * 1e-3);
    finding_emit(c, rule, f, bounded(f, ms), ANALYSIS_LOW, title, evidence,
                 "Give the GPU more work at once: larger batches, split-K or split-KV variants, grouped "
                 "GEMMs, fusion with neighbouring kernels.");
}

/* The blocks left after the full waves run in a last wave, which leaves a part of the GPU idle. Returns
 * the fraction of the time lost this way; 0 for kernels other than GEMMs, and for at most one wave. */
static double wave_tail(const struct context *c, const struct analysis_kernel *k) {
    (void)c;
    if (k->category != KERNEL_CATEGORY_GEMM || !(k->waves > 1)) return 0;
    return 1 - k->waves / ceil(k->waves);
}

void find_wave_tails(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    const struct analysis_kernel *k = NULL;
    double all, ms = sum_classes(c, f, wave_tail, &all, &k);
    if (!k || ms < 0.03 * f->busy_ms) return;
    const char *title = analysis_text(
        c, "%s: GEMM tiles do not fill the GPU evenly: up to %s lost in partially filled last waves",
        f->s->name, finding_time(c, ms));
    const char *evidence = analysis_text(
        c, "most of it in %s: %s blocks make %.2f waves, so %.0f%% of %.0f waves is used", k->short_name,
        analysis_count(c, k->blocks), k->waves, 100 * k->waves / ceil(k->waves), ceil(k->waves));
    finding_emit(c, rule, f, bounded(f, ms), ANALYSIS_LOW, title, evidence,
                 "Pad or batch the shapes to whole tiles and waves, or let the library search for another "
                 "tile (autotuning, stream-K).");
}

static double waits(const struct context *c, const struct analysis_kernel *k) {
    (void)c;
    return k->category == KERNEL_CATEGORY_WAIT;
}

void find_waits(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    const struct analysis_kernel *k = NULL;
    double all, ms = sum_classes(c, f, waits, &all, &k);
    if (!k || ms < 0.05 * f->busy_ms) return;
    const char *title = analysis_text(c, "%s: the GPU only waits for %s", f->s->name, finding_time(c, ms));
    const char *evidence = analysis_text(
        c,
        "%.0f%% of its GPU time are barriers between blocks or waiting kernels, most of it in %s (mean %s)",
        100 * ms / f->busy_ms, k->short_name, finding_time(c, k->mean_ns * 1e-6));
    finding_emit(
        c, rule, f, bounded(f, ms), ANALYSIS_MEDIUM, title, evidence,
        "Wait less often (fewer phases), give all blocks the same work between two barriers, and let "
        "them load what they need next while they wait.");
}

void find_chains(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    double ms = bounded(f, c->stage_chain_ns[f->row] * 1e-6 / f->shares),
           all = category_ms(f, KERNEL_CATEGORY_ELEMENTWISE) + category_ms(f, KERNEL_CATEGORY_COPY);
    if (ms < 0.05 * f->busy_ms) return;
    const char *title = analysis_text(c, "%s: consecutive element-wise kernels: fusing them saves up to %s",
                                      f->s->name, finding_time(c, ms));
    const char *evidence = analysis_text(c,
                                         "%s kernels%s are in such chains; element-wise, copy and cast "
                                         "kernels take %s, %.0f%% of the GPU time",
                                         finding_count(c, f, c->stage_chain_kernels[f->row]), finding_unit(f),
                                         finding_time(c, all), 100 * all / f->busy_ms);
    finding_emit(
        c, rule, f, ms, ANALYSIS_MEDIUM, title, evidence,
        finding_advice(c, f,
                       "Fuse them: torch.compile, or fused kernels for norm, rotary embedding and "
                       "activation. This also removes their launches.",
                       "Fuse them: torch.compile, or fused kernels for normalisation, activation and "
                       "optimiser. This also removes their launches."));
}

void find_casts(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    double kernels_ms = category_ms(f, KERNEL_CATEGORY_COPY), copies_ms = 0;
    for (size_t d = 0; d < c->a->ndevices; d++)
        copies_ms += analysis_stage_on(c->a, f->row, d)->device_copy_alone_ns * 1e-6 / f->shares;
    double ms = kernels_ms + copies_ms;
    if (ms < 0.05 * f->busy_ms) return;
    const char *copies =
        copies_ms > 0 ? analysis_text(c, "; %s of it in copies by memcpy", finding_time(c, copies_ms)) : "";
    const char *title =
        analysis_text(c, "%s spends %s in copies and casts on the device", f->s->name, finding_time(c, ms));
    const char *evidence =
        analysis_text(c, "%.0f%% of its GPU time computes nothing: type casts, concatenation, reordering%s",
                      100 * ms / f->busy_ms, copies);
    finding_emit(
        c, rule, f, bounded(f, ms), ANALYSIS_MEDIUM, title, evidence,
        finding_advice(c, f,
                       "Keep one type from end to end (no autocast around bf16 weights), write the "
                       "KV cache in place instead of concatenating, and avoid non-contiguous layouts.",
                       "Keep one type from end to end, write results in place instead of copying or "
                       "concatenating them, and avoid non-contiguous layouts."));
}

void find_attention(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    double softmax = c->stage_softmax_ns[f->row] * 1e-6 / f->shares,
           fused = category_ms(f, KERNEL_CATEGORY_ATTENTION);
    if (fused > 0 || softmax < 0.03 * f->busy_ms || !(category_ms(f, KERNEL_CATEGORY_GEMM) > 0)) return;
    finding_emit(c, rule, f, bounded(f, softmax), ANALYSIS_MEDIUM,
                 analysis_text(c, "%s computes attention in separate kernels: %s in softmax alone",
                               f->s->name, finding_time(c, softmax)),
                 "there are softmax kernels between matrix products but no fused attention kernel, so the "
                 "scores are written to memory and read back",
                 "Use a fused attention kernel (FlashAttention, scaled_dot_product_attention, FlashInfer).");
}

/* Reports experts that run one by one, as hundreds of small GEMMs per generated token. A prefill pass
 * generates one token, so for prefill this is the number per pass. */
void find_experts(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    double calls = 0, total_ms = 0; /* over all occurrences and devices */
    if (!(f->s->tokens_out > 0) ||
        !(category_ms(f, KERNEL_CATEGORY_SORT) + category_ms(f, KERNEL_CATEGORY_MOE) > 0))
        return;
    for (size_t i = 0; i < c->a->nkernels; i++) {
        const struct analysis_kernel *k = &c->a->kernels[i];
        if (root_of(c, k->stage) != f->row ||
            (k->category != KERNEL_CATEGORY_GEMV && k->category != KERNEL_CATEGORY_GEMM))
            continue;
        calls += (double)k->calls;
        total_ms += k->owned_ns * 1e-6;
    }
    double each = calls / f->s->tokens_out, mean_us = calls > 0 ? total_ms * 1e3 / calls : 0;
    double gaps = f->s->idle.ns[ANALYSIS_IDLE_LAUNCH] * 1e-6 / f->shares * f->idle_scale * calls /
                  (double)MAX(f->s->kernels, 1);
    if (each < 100 || mean_us > 20) return;
    const char *title =
        analysis_text(c, "%s runs its experts one by one: %.0f small GEMMs per %s", f->s->name, each,
                      f->s->tokens_in > f->s->tokens_out ? "pass" : "token");
    const char *unit = finding_unit(f);
    const char *evidence = analysis_text(
        c, "%.1f us each on average, %s%s; launch gaps of %s before them (part of the saving by a graph)",
        mean_us, finding_time(c, total_ms / f->shares), *unit ? unit : " in total", finding_time(c, gaps));
    finding_emit(c, rule, f, gaps, ANALYSIS_MEDIUM, title, evidence,
                 "Use a grouped or fused MoE kernel: one launch for all experts of a layer.");
}

void find_communication(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    double exposed_ms = 0, all_ms = category_ms(f, KERNEL_CATEGORY_COMMUNICATION);
    for (size_t d = 0; d < c->a->ndevices; d++)
        exposed_ms += analysis_stage_on(c->a, f->row, d)->exposed_ns * 1e-6 / f->shares;
    if (!(exposed_ms > 0.05 * f->busy_ms)) return;
    bool ranks = timeline_has_ranks(c->tl);
    const char *title =
        analysis_text(c,
                      ranks ? "%s: ranks communicate or wait for other ranks for %s without other kernels"
                            : "%s: communication is not overlapped with other kernels for %s",
                      f->s->name, finding_time(c, exposed_ms));
    const char *evidence = analysis_text(
        c, "communication kernels own %s of its GPU time; includes waiting for the slowest rank",
        finding_time(c, all_ms));
    finding_emit(
        c, rule, f, exposed_ms, ANALYSIS_LOW, title, evidence,
        ranks ? "See the findings of ranks.md: they divide it into waiting and moving bytes, if its "
                "collectives "
                "were matched."
              : finding_advice(c, f,
                               "Overlap it with computation, fuse all-reduce with its neighbours, or split "
                               "the model over fewer devices.",
                               "Overlap it with computation, or send less: smaller types, or sums over "
                               "several steps (gradient accumulation)."));
}
