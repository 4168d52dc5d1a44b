#include "analyze/analyze.h"
#include "analyze/counters.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "analyze/internal.h"
#include "analyze/kernel_profile.h"
#include "analyze/range_tree.h"
#include "analyze/totals.h"
#include "base/die.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"

/* Memory, texts and notes that are freed with the analysis. */
struct owner {
    struct memory memory;
    struct intern *texts;
    struct {
        struct analysis_note *v;
        size_t n, cap;
    } notes;
};

void *analysis_keep(struct context *c, void *block) {
    vec_push(c->memory, block);
    return block;
}

void *analysis_alloc(struct context *c, size_t n, size_t elem_bytes) {
    return analysis_keep(c, xcalloc(n + 1, elem_bytes));
}

static const char *vtext(struct context *c, const char *fmt, va_list ap) {
    struct strbuf s = STRBUF_INIT;
    strbuf_vaddf(&s, fmt, ap);
    const char *kept = intern_text(c->texts, intern_id(c->texts, s.buf, s.len));
    strbuf_free(&s);
    return kept;
}

const char *analysis_text(struct context *c, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *s = vtext(c, fmt, ap);
    va_end(ap);
    return s;
}

const char *analysis_count(struct context *c, uint64_t n) {
    char text[40];
    return analysis_text(c, "%s", units_grouped(n, text, sizeof text));
}

void analysis_note(struct context *c, enum analysis_severity severity, const char *fmt, ...) {
    struct owner *o = c->a->owner;
    va_list ap;
    va_start(ap, fmt);
    vec_push(&o->notes, ((struct analysis_note){ severity, vtext(c, fmt, ap) }));
    va_end(ap);
    c->a->notes = o->notes.v;
    c->a->nnotes = o->notes.n;
}

const char *analysis_idle_cause_name(enum analysis_idle_cause cause) {
    static const char *const names[] = {
#define X(id, name) [ANALYSIS_IDLE_##id] = name,
        ANALYSIS_IDLE(X)
#undef X
    };
    return (unsigned)cause < ANALYSIS_IDLE_CAUSES ? names[cause] : "";
}

const char *analysis_confidence_name(enum analysis_confidence confidence) {
    static const char *const names[] = { "low", "medium", "high" };
    return (unsigned)confidence < COUNTOF(names) ? names[confidence] : "";
}

static double positive_or_nan(double v) { return v > 0 && isfinite(v) ? v : NAN; }

static void open_context(struct context *c, const struct timeline *tl, const struct analyze_input *input,
                         struct analysis *a) {
    static const struct analyze_input nothing = { .peak_flops_per_s = NAN, .peak_bytes_per_s = NAN };
    struct owner *o = xcalloc(1, sizeof *o);
    o->texts = intern_open();
    *a = (struct analysis){ .timeline = tl, .input = input, .owner = o, .model_mfu = NAN, .model_mbu = NAN };
    *c = (struct context){
        .tl = tl, .in = input ? input : &nothing, .a = a, .memory = &o->memory, .texts = o->texts
    };
    a->peak_flops_per_s = positive_or_nan(c->in->peak_flops_per_s);
    a->peak_bytes_per_s = positive_or_nan(c->in->peak_bytes_per_s);
    a->peak_source = c->in->peak_source;
    a->cpu_only = true;
    if (c->in->phases) a->phases = *c->in->phases;
    if (!tl) return;
    a->wall_ns = (double)(tl->end_ns - tl->start_ns);
    a->kernels_total = tl->kernels.n;
    for (size_t i = 0; i < tl->ndevices; i++)
        if (tl->devices[i].kernel_count && !tl->devices[i].is_cpu) a->cpu_only = false;
}

static void close_context(struct context *c) {
    void *scratch[] = { c->stage_scratch,    c->occ_scratch,     c->shape_category,      c->range_gpu_ns,
                        c->shape_owned_ns,   c->shape_stage_ns,  c->previous_launch,     c->launch_occurrence,
                        c->copy_occurrence,  c->stage_chain_ns,  c->stage_chain_kernels, c->queued_launch,
                        c->range_flops,      c->range_bytes,     c->range_counted,       c->shape_alone_ns,
                        c->range_compute_ns, c->quiet.v,         c->unrecorded.v,        c->outside_idle.v,
                        c->attends,          c->stage_softmax_ns };
    for (size_t i = 0; i < COUNTOF(scratch); i++) free(scratch[i]);
    range_sums_close(c->range_owned);
    range_sums_close(c->range_durations);
    for (size_t i = 0; c->power && i < c->tl->ndevices; i++) {
        free(c->power[i].time_ns);
        free(c->power[i].joules);
    }
    free(c->power);
}

static void analyze_totals(struct context *c) {
    if (c->in->totals) c->a->totals = totals_make(c->a);
}

/* All passes, in the order in which they run. The comments name the main inputs and results of a pass:
 * "inputs -> results". "stages.x" is a member of struct analysis_stage, "c.x" of struct context. */
static const struct pass {
    void (*run)(struct context *c);
    bool without_trace; /* also runs without a timeline */
    bool brief;         /* also runs with input.brief */
} passes[] = {
    /* shapes -> kernels (one row per shape, unsorted), c.shape_category */
    { analyze_kernel_names, false, true },
    /* ranges, rules, timings -> stages (rows), occurrences, recognition, c.kernel_occurrence,
     * c.launch_occurrence */
    { analyze_stages, true, true },
    /* launches, copies, syncs, c.launch_occurrence -> stages.launches .copies .syncs, c.previous_launch,
     * c.queued_launch */
    { analyze_calls, false, true },
    /* kernels and copies in time order, c.shape_category -> c.attends */
    { analyze_attention_softmax, false, false },
    /* kernels in time order, c.attends -> devices, stages.gpu_owned_self_ns .category_ns,
     * occurrences.gpu_*, c.stage_softmax_ns, c.shape_owned_ns, c.shape_alone_ns, c.shape_stage_ns,
     * c.range_gpu_ns .range_owned */
    { analyze_devices, false, true },
    /* kernels and copies in time order, c.launch_occurrence, c.previous_launch, c.queued_launch ->
     * stage_devices, devices.timeline_ns .unrecorded_ns, occurrences.busy_ns .idle_ns, c.unrecorded,
     * c.outside_idle */
    { analyze_stage_time, false, true },
    /* launches and kernels -> queue depth and launch delay, in c.stage_scratch */
    { analyze_queue, false, false },
    /* c.shape_owned_ns, c.shape_stage_ns -> kernels (sorted, with statistics), categories, libraries,
     * shape_kernel */
    { analyze_kernels_finish, false, true },
    /* GEMM records, shape_kernel -> kernels.flops .bytes .work_ns .compute_ns .work_source */
    { analyze_gemms, false, false },
    /* shapes of operators, kernels.flops -> c.range_flops .range_bytes .range_compute_ns .range_counted,
     * kernels.flops .bytes .work_ns .compute_ns .work_source of kernels without GEMM record */
    { analyze_operator_work, false, false },
    /* ranges, c.range_gpu_ns .range_owned .range_flops .range_bytes -> operators, operators_by_shape,
     * c.range_total_ns .range_kernel_ns */
    { analyze_operators_finish, false, false },
    /* GEMM records, shapes of operators, c.range_flops .range_compute_ns .range_kernel_ns -> gemms */
    { analyze_gemm_table, false, false },
    /* kernels in time order -> c.stage_chain_ns, c.stage_chain_kernels */
    { analyze_chains, false, false },
    /* token records, labels of ranges, input.tokens -> occurrences.tokens_*, stages.tokens_* .token_ns */
    { analyze_tokens, false, true },
    /* occurrences, stage_devices, c.stage_scratch -> stages.wall_ns .busy_ns .gpu_owned_ns .devices .idle,
     * sums over occurrences */
    { analyze_stages_finish, false, true },
    /* occurrences, kernels without launch -> stages.time_refused, without times of these stages */
    { analyze_contained, false, true },
    /* capture windows, stages.host_ns -> missed, stages.missed */
    { analyze_captured, false, true },
    /* replay records, kernels of graphs -> graphs, notes */
    { analyze_replays, false, false },
    /* replay records, recognition, kernels of graphs -> stages.unrecorded */
    { analyze_unrecorded, false, false },
    /* power samples, occurrences -> powers, stages.joules .watts */
    { analyze_power, false, true },
    /* ranges, kernels -> calls, notes */
    { analyze_call_tree, false, false },
    /* memory records, occurrences -> memories */
    { analyze_memory, false, false },
    /* earlier results -> conservation, lost_share, stages.idle_known .idle_refused, notes */
    { analyze_provenance, false, false },
    /* input.timings, stages.wall_total_ns .tokens_* -> stages.time_ms .timing_ms .tokens .tokens_per_s
     * .kernels_per_token .launches_per_token, c.stage_scratch.tokens_out_each */
    { analyze_times, true, false },
    /* stages.gpu_busy_ns .idle_ns .same_input_ms .time_ms .missed, c.stage_scratch.unmatched_launches ->
     * stages.busy_ms .busy_share .kernels_each */
    { analyze_busy, true, false },
    /* input.costs, input.llm, stages.tokens_* -> costs */
    { analyze_costs, true, false },
    /* costs, timings.work, stages.time_ms, peaks -> stages.flops .bytes .floor_ms .hard_bound_ms
     * .peak_flops_per_s .peak_bytes_per_s .step_bytes .mfu .mbu .mbu_read .distance .recorded_mfu
     * .recorded_mbu, model_mfu, model_mbu */
    { analyze_utilization, true, false },
    /* input.timings -> stability */
    { analyze_stability, true, false },
    /* counter samples, kernels, stages -> counters, stages.counters */
    { analyze_counters, false, false },
    /* kernels, operators, gemms, devices, stages, stage_devices, conservation.busy -> their rates and shares,
     * parts, unrecorded */
    { analyze_ratios, true, false },
    /* recognition, occurrences, stages.token_source, c.unrecorded -> step_kinds, recognition.*_steps
     * .steps.time_ns .steps.label, notes */
    { analyze_step_kinds, false, false },
    /* recognition, occurrences, counters, input.llm -> anatomy */
    { analyze_anatomy, false, false },
    /* input.profiles, kernels -> profiles */
    { analyze_profiles, false, false },
    /* if input.totals: timeline, kernels, devices, stage_devices -> totals */
    { analyze_totals, false, false },
    /* stages.flops, kernels.flops, counters, operators.flops, peaks -> roofline */
    { analyze_roofline, false, false },
    /* ratios of stages and of the roofline, powers, peaks -> stages.over, roofline.over, model_over */
    { analyze_over_peak, true, false },
    /* everything -> findings */
    { analyze_findings, true, false },
};

void analyze_run(const struct timeline *tl, const struct analyze_input *input, struct analysis *a) {
    struct context c;
    open_context(&c, tl, input, a);
    for (size_t i = 0; i < COUNTOF(passes); i++)
        if ((tl || passes[i].without_trace) && (passes[i].brief || !c.in->brief)) passes[i].run(&c);
    close_context(&c);
}

bool analyze_request_window(const struct timeline *tl, const struct analyze_input *input, uint64_t *from_ns,
                            uint64_t *to_ns) {
    struct context c;
    struct analysis a;
    bool anything_outside = false;
    open_context(&c, tl, input, &a);
    analyze_stages(&c);
    *from_ns = UINT64_MAX;
    *to_ns = 0;
    for (size_t i = 0; i < a.noccurrences; i++) {
        *from_ns = MIN(*from_ns, a.occurrences[i].start_ns);
        *to_ns = MAX(*to_ns, a.occurrences[i].end_ns);
    }
    for (size_t i = 0; i < tl->kernels.n; i++) {
        if (c.kernel_occurrence[i] == ANALYSIS_NONE)
            anything_outside = true;
        else
            *to_ns = MAX(*to_ns, tl->kernels.end_ns[i]);
    }
    bool found = a.noccurrences && !a.stages[0].implicit && anything_outside;
    close_context(&c);
    analysis_free(&a);
    return found;
}

bool analyze_steady_window(const struct timeline *tl, const struct analyze_input *input,
                           struct recognised_phases *phases) {
    struct context c;
    struct analysis a;
    open_context(&c, tl, input, &a);
    analyze_kernel_names(&c);
    analyze_stages(&c);
    *phases = a.recognition.phases;
    bool found = a.recognised;
    close_context(&c);
    analysis_free(&a);
    return found;
}

void analysis_free(struct analysis *a) {
    struct owner *o = a->owner;
    if (!o) return;
    counters_free(a->counters);
    recognise_free(&a->recognition);
    kernel_profiles_free(a->profiles);
    totals_free(a->totals);
    free(a->graphs);
    for (size_t i = 0; i < o->memory.n; i++) free(o->memory.v[i]);
    free(o->memory.v);
    free(o->notes.v);
    intern_close(o->texts);
    free(o);
    *a = (struct analysis){ 0 };
}
