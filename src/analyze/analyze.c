#include "analyze/analyze.h"
#include "analyze/counters.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "analyze/internal.h"
#include "analyze/kernel_profile.h"
#include "analyze/totals.h"
#include "base/die.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"

/* What lives as long as the analysis. */
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
    static const char *const names[ANALYSIS_IDLE_CAUSES] = {
        [ANALYSIS_IDLE_LAUNCH] = "launch gap",
        [ANALYSIS_IDLE_SYNC] = "host synchronisation",
        [ANALYSIS_IDLE_COPY] = "copy",
        [ANALYSIS_IDLE_DEPENDENCY] = "dependency between streams",
        [ANALYSIS_IDLE_DEVICE] = "kernel-to-kernel latency",
        [ANALYSIS_IDLE_NO_WORK] = "no work",
        [ANALYSIS_IDLE_OTHER] = "other stage's work",
        [ANALYSIS_IDLE_UNKNOWN] = "unknown",
    };
    return (unsigned)cause < ANALYSIS_IDLE_CAUSES ? names[cause] : "";
}

const char *analysis_confidence_name(enum analysis_confidence confidence) {
    static const char *const names[] = { "low", "medium", "high" };
    return (unsigned)confidence < COUNTOF(names) ? names[confidence] : "";
}

static double known(double v) { return v > 0 && isfinite(v) ? v : NAN; }

static void start(struct context *c, const struct timeline *tl, const struct analyze_input *input,
                  struct analysis *a) {
    static const struct analyze_input nothing = { .peak_flops_per_s = NAN, .peak_bytes_per_s = NAN };
    struct owner *o = xcalloc(1, sizeof *o);
    o->texts = intern_open();
    *a = (struct analysis){ .timeline = tl, .input = input, .owner = o };
    *c = (struct context){
        .tl = tl, .in = input ? input : &nothing, .a = a, .memory = &o->memory, .texts = o->texts
    };
    a->wall_ns = (double)(tl->end_ns - tl->start_ns);
    a->kernels_total = tl->kernels.n;
    a->peak_flops_per_s = known(c->in->peak_flops_per_s);
    a->peak_bytes_per_s = known(c->in->peak_bytes_per_s);
    a->peak_source = c->in->peak_source;
    a->cpu_only = true;
    for (size_t i = 0; i < tl->ndevices; i++)
        if (tl->devices[i].kernel_count && !tl->devices[i].is_cpu) a->cpu_only = false;
}

/* What only the passes needed. */
static void finish(struct context *c) {
    void *scratch[] = { c->stage_work,        c->occ_work,       c->shape_category,      c->range_gpu_ns,
                        c->shape_owned_ns,    c->shape_stage_ns, c->previous_launch,     c->range_total_ns,
                        c->launch_occurrence, c->stage_chain_ns, c->stage_chain_kernels, c->occ_devices };
    for (size_t i = 0; i < COUNTOF(scratch); i++) free(scratch[i]);
    for (size_t i = 0; c->power && i < c->tl->ndevices; i++) {
        free(c->power[i].time_ns);
        free(c->power[i].joules);
    }
    free(c->power);
}

void analyze_run(const struct timeline *tl, const struct analyze_input *input, struct analysis *a) {
    struct context c;
    start(&c, tl, input, a);
    analyze_kernel_names(&c);
    analyze_stages(&c);
    analyze_calls(&c);
    analyze_devices(&c);
    analyze_queue(&c);
    analyze_kernels_finish(&c);
    analyze_operators_finish(&c);
    analyze_gemms(&c);
    analyze_chains(&c);
    analyze_tokens(&c);
    analyze_stages_finish(&c);
    analyze_captured(&c);
    analyze_power(&c);
    analyze_provenance(&c);
    analyze_model(&c);
    analyze_stability(&c);
    a->counters = counters_make(a);
    a->profiles = kernel_profiles_match(a, c.in->profiles, c.in->nprofiles);
    if (c.in->totals) a->totals = totals_make(a);
    analyze_roofline(&c);
    analyze_findings(&c);
    finish(&c);
}

void analysis_free(struct analysis *a) {
    struct owner *o = a->owner;
    if (!o) return;
    counters_free(a->counters);
    kernel_profiles_free(a->profiles);
    totals_free(a->totals);
    for (size_t i = 0; i < o->memory.n; i++) free(o->memory.v[i]);
    free(o->memory.v);
    free(o->notes.v);
    intern_close(o->texts);
    free(o);
    *a = (struct analysis){ 0 };
}
