#include "report/view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "run/trace_facts.h"

static double pick(double first, double second) { return isfinite(first) ? first : second; }

/* True for the only stage of an empty trace. The engine did not start, so the time is unknown. */
static bool is_empty_trace(const struct analysis_stage *s) {
    return s->implicit && !s->kernels && !(s->time_ms > 0);
}

void view_init(struct view *v, const struct run_info *run) {
    const struct analysis *a = run->analysis;
    *v = (struct view){ .run = run, .a = a && a->timeline ? a : NULL };
    v->stages = xcalloc((a ? a->nstages : 0) + 1, sizeof(const struct analysis_stage *));
    for (size_t i = 0; a && i < a->nstages; i++)
        if (!is_empty_trace(&a->stages[i])) v->stages[v->nstages++] = &a->stages[i];
}

void view_free(struct view *v) {
    free(v->stages);
    v->stages = NULL;
    v->nstages = 0;
}

bool view_stage_has_sentence(const struct analysis_stage *s) {
    return !s->parent_name && !s->outside && !s->warm_up && isfinite(s->time_ms);
}

const char *view_time_source(const struct view *v, const struct analysis_stage *s) {
    if (s->time_source) return s->time_source;
    return v->a ? "trace" : "";
}

double view_representative_ms(const struct analysis_stage *s) {
    return s->timing && s->timing->work ? s->timing->work->recorded_ms : NAN;
}

const char view_and_gaps[] = " and the idle time between steps";

const char *view_saving_unit(const struct analysis *a, const struct analysis_finding *f) {
    return f->stage != ANALYSIS_NONE && a->stages[f->stage].requests > 1 ? " per step" : "";
}

const char *view_stage_name(const struct analysis *a, uint32_t stage) {
    return stage == ANALYSIS_NONE || stage >= a->nstages ? NULL : a->stages[stage].name;
}

size_t view_findings(const struct view *v, const struct analysis_finding **first) {
    const struct analysis *a = v->run->analysis; /* also without a trace */
    *first = a ? a->findings : NULL;
    return a ? a->nfindings : 0;
}

bool view_unstable(const struct view *v) {
    for (size_t i = 0; i < v->nstages; i++)
        if (!v->stages[i]->parent_name && v->stages[i]->timing_ms.cv > 0.05) return true;
    return false;
}

bool view_has_warning(const struct view *v, const char *text) {
    for (size_t i = 0; i < v->run->nwarnings; i++)
        if (strcmp(v->run->warnings[i], text) == 0) return true;
    return false;
}

void view_caveats(const struct view *v, struct strlist *out) {
    for (size_t i = 0; i < v->run->nwarnings; i++) strlist_add(out, "%s", v->run->warnings[i]);
    for (size_t i = 0; v->a && i < v->a->nnotes; i++)
        if (v->a->notes[i].severity == ANALYSIS_WARNING && !view_has_warning(v, v->a->notes[i].text))
            strlist_add(out, "%s", v->a->notes[i].text);
}

bool view_warns_unstable(const struct view *v) {
    for (size_t i = 0; i < v->run->nwarnings; i++)
        if (strncmp(v->run->warnings[i], "Unstable", 8) == 0) return false;
    return view_unstable(v);
}

bool view_has_floors(const struct view *v) {
    for (size_t i = 0; i < v->nstages; i++)
        if (isfinite(v->stages[i]->floor_ms) || isfinite(v->stages[i]->flops)) return true;
    return false;
}

size_t view_busy_devices(const struct view *v) {
    size_t n = 0;
    for (size_t i = 0; v->a && i < v->a->ndevices; i++) n += v->a->devices[i].kernels > 0;
    return n;
}

bool view_two_runs(const struct view *v) {
    for (size_t i = 0; i < v->nstages; i++)
        if (v->stages[i]->timing_ms.n && (isfinite(v->stages[i]->busy_ms) || v->stages[i]->joined))
            return true;
    return false;
}
bool view_knows_busy(const struct view *v) {
    for (size_t i = 0; i < v->nstages; i++)
        if (isfinite(v->stages[i]->busy_ms)) return true;
    return false;
}
const char *view_recorded_words(const struct analysis_stage *s) {
    return s->recorded_only ? " while recorded" : "";
}
bool view_unrecorded(const struct view *v) {
    for (size_t i = 0; i < v->nstages; i++)
        if (v->stages[i]->unrecorded) return true;
    return false;
}
bool view_was_busy(const struct view *v) { return v->a && v->a->input && v->a->input->busy; }

bool view_on_cpu(const struct view *v) { return v->a && v->a->cpu_only; }

const char *view_device(const struct view *v) {
    if (v->run->peak.device) return v->run->peak.device;
    return run_trace_device(v->a ? v->a->timeline : v->run->timeline);
}

double view_peak_flops(const struct view *v) {
    return pick(v->run->peak.flops_per_s, v->run->analysis ? v->run->analysis->peak_flops_per_s : NAN);
}

double view_peak_bytes(const struct view *v) {
    return pick(v->run->peak.bytes_per_s, v->run->analysis ? v->run->analysis->peak_bytes_per_s : NAN);
}

const char *view_peak_source(const struct view *v) {
    return v->run->peak.source ? v->run->peak.source
           : v->run->analysis  ? v->run->analysis->peak_source
                               : NULL;
}

double view_model_mfu(const struct view *v) { return v->run->analysis ? v->run->analysis->model_mfu : NAN; }
double view_model_mbu(const struct view *v) { return v->run->analysis ? v->run->analysis->model_mbu : NAN; }
