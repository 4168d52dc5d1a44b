#include "report/story.h"

#include <math.h>
#include <string.h>

#include "base/html.h"
#include "base/text.h"

#define MAX_STAGES 4

const struct story_form story_html = { html_escape, "<b>", "</b>" };
static void plain_text(struct strbuf *out, const char *s) { strbuf_add_printable(out, s, strlen(s)); }

const struct story_form story_plain = { plain_text, "", "" };
const struct story_form story_markdown = { text_markdown, "**", "**" };

const char story_incomplete[] = "The run ended early. The report covers the data collected until then.";
const char story_unstable[] =
    "Unstable: the repeats of a stage vary by more than 5% (CV). Small differences are not significant.";

/* True if the finding "launch-bound" could save at least half of the stage's time. */
static bool is_launch_bound(const struct view *v, const struct analysis_stage *s) {
    const struct analysis_finding *f;
    for (size_t i = 0, n = view_findings(v, &f); i < n; i++) {
        const char *name = view_stage_name(v->a, f[i].stage);
        if (name && strcmp(f[i].rule, "launch-bound") == 0 && strcmp(name, s->name) == 0)
            return f[i].saving_percent >= 50;
    }
    return false;
}

/* Adds the number of steps and devices that the time is the mean of. */
static void add_steps(const struct view *v, const struct analysis_stage *s, struct strbuf *out) {
    const char *mean = timeline_has_ranks(v->a ? v->a->timeline : NULL) ? "mean over the ranks: "
                       : s->finished > 1                                ? "mean of "
                                                                        : "";
    strbuf_addf(out, " (%s%s step%s", mean, text_count(s->finished).s, s->finished == 1 ? "" : "s");
    if (s->devices > 1) strbuf_addf(out, " on %u devices", s->devices);
    if (analysis_runs_at_once(s))
        strbuf_addf(out, ", %.1f at once, each open for %s", s->at_once,
                    text_ms(s->host_each_ns.mean * 1e-6).s);
    if (s->finished < s->occurrences)
        strbuf_addf(out, "; recording ended in %s more", text_count(s->occurrences - s->finished).s);
    strbuf_addch(out, ')');
}

static void stage_phrase(const struct view *v, const struct analysis_stage *s, const struct story_form *form,
                         struct strbuf *out) {
    strbuf_addstr(out, form->strong);
    form->text(out, s->name);
    strbuf_addf(out, " takes %s%s%s", text_ms(s->time_ms).s, form->end_strong, view_recorded_words(s));
    if (s->unrecorded)
        strbuf_addf(out, " (mean of %s steps that were not recorded)", text_count(s->timing_ms.n).s);
    if (!s->timing_ms.n && s->requests > 1)
        add_steps(v, s, out);
    else if (!s->timing_ms.n && s->devices > 1)
        strbuf_addf(out, " (mean over %u devices)", s->devices);
    bool compared = isfinite(s->distance) && !view_was_busy(v); /* times include waiting for cores */
    if (compared) strbuf_addf(out, ", %s the roofline time", text_times(s->distance).s);
    if (compared && s->over.brief)
        strbuf_addf(out, " (%s)", s->over.brief);
    else if (compared && isfinite(s->mfu) && isfinite(s->mbu))
        strbuf_addf(out, " (the %s roof)", s->mbu > s->mfu ? "memory" : "compute");
    if (is_launch_bound(v, s)) strbuf_addstr(out, ": launch-bound");
    if (isfinite(s->busy_share) && !view_on_cpu(v))
        strbuf_addf(out, ", the GPU is busy %s of it", text_percent(s->busy_share).s);
}

/* Returns the next stage in descending order of time, or NULL. `last` NULL: the first one. */
static const struct analysis_stage *longest_after(const struct view *v, const struct analysis_stage *last) {
    const struct analysis_stage *best = NULL;
    for (size_t i = 0; i < v->nstages; i++) {
        const struct analysis_stage *s = v->stages[i];
        bool later = !last || s->time_ms < last->time_ms || (s->time_ms == last->time_ms && s > last);
        if (view_stage_has_sentence(s) && s->time_ms > 0 && later && (!best || s->time_ms > best->time_ms))
            best = s;
    }
    return best;
}

#define BUSY "The machine was busy"

bool story_has_warning(const struct view *v, const char *warning) {
    return view_was_busy(v) && strncmp(warning, BUSY, strlen(BUSY)) == 0;
}

void story_answer(const struct view *v, const struct story_form *form, struct strbuf *out) {
    size_t n = 0;
    if (view_was_busy(v)) {
        strbuf_addf(out, "%s" BUSY "%s (", form->strong, form->end_strong);
        form->text(out, v->a->input->busy);
        strbuf_addstr(out, "): the times are too long and show only the order of magnitude. ");
    }
    for (const struct analysis_stage *s = NULL; n < MAX_STAGES && (s = longest_after(v, s)); n++) {
        if (n) strbuf_addstr(out, "; ");
        stage_phrase(v, s, form, out);
    }
    if (n) strbuf_addch(out, '.');
}

void story_refusal(const struct analysis_stage *s, const struct story_form *form, struct strbuf *out) {
    if (s->idle_known || !s->idle_refused || s->outside || s->on_cpu || s->parent_name) return;
    strbuf_addstr(out, "No idle-time analysis for ");
    form->text(out, s->name);
    strbuf_addstr(out, ": ");
    form->text(out, s->idle_refused);
    strbuf_addch(out, '.');
}

void story_over(const struct analysis_stage *s, const struct story_form *form, struct strbuf *out) {
    if (s->over.text) {
        form->text(out, s->name);
        strbuf_addstr(out, ": ");
        form->text(out, s->over.text);
        strbuf_addch(out, '.');
    }
    if (!analysis_inputs_differ(s)) return;
    if (out->len) strbuf_addch(out, ' ');
    form->text(out, s->name);
    strbuf_addstr(out,
                  ": its inputs differ in size. Distance, MFU, MBU and rates are medians over the repeats, "
                  "each with its own input; they are not ratios of the median times. CV and spread are "
                  "those of the repeats of one input.");
}

#define SAME_PEAK 0.01 /* peaks that differ by a smaller share are the same */

void story_peaks(const struct view *v, const struct story_form *form, struct strbuf *out) {
    double device = view_peak_flops(v);
    const char *before = "; MFU of ";
    strbuf_addf(out, "%s/s, %s/s (", text_flops(device).s, text_bytes(view_peak_bytes(v)).s);
    form->text(out, text_or_dash(view_peak_source(v)));
    strbuf_addch(out, ')');
    for (size_t i = 0; i < v->nstages; i++) {
        const struct analysis_stage *s = v->stages[i];
        if (s->parent_name || isnan(s->mfu) || !(fabs(s->peak_flops_per_s / device - 1) > SAME_PEAK))
            continue;
        strbuf_addstr(out, before);
        form->text(out, s->name);
        strbuf_addf(out, ": relative to %s/s", text_flops(s->peak_flops_per_s).s);
        before = ", ";
    }
    if (*before == ',') strbuf_addstr(out, ", the mean over the types of its products");
}

/* Adds the read bandwidth measured by `calibrate`, and each stage's MBU relative to it. */
static void add_read_bandwidth(const struct view *v, const struct story_form *form, struct strbuf *out) {
    double read = v->run->peak.read_bytes_per_s;
    if (!(read > 0)) return;
    strbuf_addf(out, "Reading measured by inferprof calibrate: %s/s (%s of the peak).", text_bytes(read).s,
                text_percent(read / view_peak_bytes(v)).s);
    const char *before = " MBU of it: ";
    for (size_t i = 0; i < v->nstages; i++) {
        const struct analysis_stage *s = v->stages[i];
        if (!isfinite(s->mbu_read) || s->parent_name) continue;
        strbuf_addstr(out, before);
        form->text(out, s->name);
        strbuf_addf(out, " %s", text_percent(s->mbu_read).s);
        before = ", ";
    }
    if (*before == ',') strbuf_addch(out, '.');
}

void story_bandwidth(const struct view *v, const struct story_form *form, struct strbuf *out) {
    bool any = false;
    for (size_t i = 0; i < v->nstages; i++) {
        const struct analysis_stage *s = v->stages[i];
        if (!s->level || s->parent_name) continue;
        strbuf_addstr(out, any ? ", " : "Bandwidth by the bytes that a pass reads: ");
        form->text(out, s->name);
        strbuf_addf(out, " %s (", text_bytes(s->step_bytes).s);
        form->text(out, s->level);
        strbuf_addf(out, ": %s/s)", text_bytes(s->peak_bytes_per_s).s);
        any = true;
    }
    if (any) strbuf_addf(out, "; DRAM %s/s.", text_bytes(view_peak_bytes(v)).s);
    if (!any) add_read_bandwidth(v, form, out);
}

void story_stage_bar(const struct view *v, const struct analysis_stage *s, struct strbuf *out) {
    strbuf_addf(out, "%s: %s", s->name, text_ms(s->time_ms).s);
    if (isfinite(s->busy_ms))
        strbuf_addf(out, ", %s %s", view_on_cpu(v) ? "busy" : "GPU busy", text_ms(s->busy_ms).s);
    if (isfinite(s->floor_ms)) strbuf_addf(out, ", roofline time %s", text_ms(s->floor_ms).s);
}

const char *story_two_runs(const struct view *v) {
    static const char steps[] =
        "If steps were counted without recording their kernels, times are those of these steps. GPU busy is "
        "the kernel time of the recorded steps; GPU idle is the difference. Kernels and operators are from "
        "the recorded steps.";
    if (view_unrecorded(v)) return steps;
    static const char on_cpu[] =
        "Times are medians of the timed repeats. Busy and idle are from the recorded run, and "
        "so are kernels and operators.";
    static const char on_gpu[] =
        "Times are medians of the timed repeats. GPU busy is the time with a running kernel or copy in the "
        "recorded run; GPU idle is the timed median minus that. Kernels and operators are from the recorded "
        "run.";
    static const char unknown[] =
        "Times are medians of the timed repeats. Kernels and operators are from the recorded run.";
    return !view_knows_busy(v) ? unknown : view_on_cpu(v) ? on_cpu : on_gpu;
}

const char *story_no_finding(const struct view *v) {
    if (!v->a) return "No findings: no trace was recorded.";
    return v->nstages ? "No findings: no rule matched this trace."
                      : "No findings: the trace contains no records.";
}

const char *story_reply(const struct run_answer *a) {
    if (a->error) return a->error;
    return a->text && *a->text ? a->text
                               : "(no text: the model has no tokenizer, only token ids are available)";
}
