/* The upper half of the page: findings, key figures, stages, idle time, recognised steps. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/html.h"
#include "base/text.h"
#include "base/util.h"
#include "report/charts.h"
#include "report/glossary.h"
#include "report/html.h"
#include "report/rows.h"
#include "report/story.h"

static void finding(const struct analysis *a, const struct analysis_finding *f, struct strbuf *out) {
    const char *stage = view_stage_name(a, f->stage);
    strbuf_addstr(out, "<li>\n");
    if (isfinite(f->saving_ms)) {
        strbuf_addf(out, "<div class=\"save\"><small>Could save up to</small> %s <small>%s (%s of ",
                    text_ms(f->saving_ms).s, view_saving_unit(a, f), text_percent(f->saving_percent / 100).s);
        html_escape(out, stage ? stage : "the run");
        strbuf_addf(out, "%s)</small></div>\n", f->outside_ms > 0 ? view_and_gaps : "");
    }
    strbuf_addstr(out, "<h3>");
    html_escape(out, f->title);
    strbuf_addstr(out, "</h3>\n<p>");
    html_escape(out, f->evidence);
    strbuf_addstr(out, "</p>\n<p class=\"do\">");
    html_escape(out, f->advice);
    strbuf_addf(out, "</p>\n<div class=\"tag\">%s confidence</div>\n</li>\n",
                analysis_confidence_name(f->confidence));
}

/* Frees the sentence. Writes nothing if it is empty. */
static void paragraph(const char *css_class, struct strbuf *sentence, struct strbuf *out) {
    if (sentence->len) strbuf_addf(out, "<p class=\"%s\">%s</p>\n", css_class, sentence->buf);
    strbuf_free(sentence);
}

void html_legend(const struct glossary_term *terms, size_t n, struct strbuf *out) {
    strbuf_addstr(out, "<details class=\"legend\"><summary>What the figures mean</summary>\n<dl>\n");
    for (size_t i = 0; i < n; i++) strbuf_addf(out, "<dt>%s</dt><dd>%s</dd>\n", terms[i].term, terms[i].help);
    strbuf_addstr(out, "</dl></details>\n");
}

void html_verdict(const struct view *v, struct strbuf *out) {
    const struct analysis_finding *f;
    size_t n = view_findings(v, &f);
    html_section(out, "verdict", "What to change first", NULL);
    struct strbuf answer = STRBUF_INIT;
    story_answer(v, &story_html, &answer);
    paragraph("lede", &answer, out);
    if (n == 0) {
        strbuf_addf(out, "<p class=\"lede\">%s</p>\n", story_no_finding(v));
    } else {
        strbuf_addstr(out, "<ol class=\"findings\">\n");
        for (size_t i = 0; i < MIN(n, 3); i++) finding(v->a, &f[i], out);
        strbuf_addstr(out, "</ol>\n");
    }
    if (n > 3) {
        strbuf_addf(
            out,
            "<details class=\"rest\"><summary>%zu more finding%s</summary>\n<ol class=\"findings more\">\n",
            n - 3, n == 4 ? "" : "s");
        for (size_t i = 3; i < MIN(n, 15); i++) finding(v->a, &f[i], out);
        strbuf_addstr(out, "</ol></details>\n");
    }
    size_t nterms;
    const struct glossary_term *terms = glossary_legend(&nterms);
    html_legend(terms, nterms, out);
    html_section_end(out);
}

/* ---- key figures */
static void figure(struct strbuf *out, const char *name, const char *value, const char *note) {
    strbuf_addstr(out, "<div><dt>");
    html_escape(out, name);
    strbuf_addstr(out, "</dt><dd>");
    html_escape(out, value);
    if (note && *note) {
        strbuf_addstr(out, " <small>");
        html_escape(out, note);
        strbuf_addstr(out, "</small>");
    }
    strbuf_addstr(out, "</dd></div>\n");
}

static void stage_figure(const struct analysis_stage *s, struct strbuf *out) {
    char note[64] = "";
    if (isfinite(s->spread_ms)) snprintf(note, sizeof note, "\u00b1 %s", text_ms(s->spread_ms).s);
    if (s->recorded_only) snprintf(note, sizeof note, "%s", view_recorded_words(s) + 1);
    figure(out, s->name, text_ms(s->time_ms).s, note);
}

void html_figures(const struct view *v, struct strbuf *out) {
    size_t shown = 0;
    strbuf_addstr(out, "<dl class=\"figures\">\n");
    for (size_t i = 0; i < v->nstages && shown < 3; i++)
        if (!v->stages[i]->parent_name && isfinite(v->stages[i]->time_ms)) {
            stage_figure(v->stages[i], out);
            shown++;
        }
    for (size_t i = 0; i < v->run->nfigures && shown < 7; i++, shown++) {
        const struct run_figure *f = &v->run->figures[i];
        figure(out, f->name, text_ms_number(run_figure_stats(v->run, f).median).s, f->unit);
    }
    if (isfinite(view_model_mfu(v))) {
        figure(out, "model MFU", text_percent(view_model_mfu(v)).s, v->run->analysis->model_over.brief);
        shown++;
    }
    if (v->a && v->a->conservation.busy > 0 && shown < 7) {
        size_t gpus = view_busy_devices(v);
        char note[48] = "";
        if (gpus > 1) snprintf(note, sizeof note, "sum of %zu", gpus);
        figure(out, view_on_cpu(v) ? "busy" : "kernel time", text_ms(v->a->conservation.busy / 1e6).s, note);
        figure(out, "kernels", text_count(v->a->kernels_total).s, "");
    }
    strbuf_addstr(out, "</dl>\n");
}

/* ---- stages */
static void stage_bar(const struct view *v, const struct analysis_stage *s, double most, struct strbuf *out) {
    double wide = s->time_ms / most * 100;
    struct strbuf title = STRBUF_INIT;
    story_stage_bar(v, s, &title);
    strbuf_addf(out, "<div class=\"row%s\" title=\"", s->depth ? " sub" : "");
    html_escape(out, title.buf);
    strbuf_free(&title);
    strbuf_addstr(out, "\"><div class=\"name\">");
    html_escape(out, s->name);
    strbuf_addf(out, "</div><div class=\"track\"><i class=\"seg %s\" style=\"width:%.3f%%\"></i>",
                isfinite(s->busy_ms) ? "idle" : "unknown", wide);
    if (isfinite(s->busy_ms))
        strbuf_addf(out, "<i class=\"seg busy\" style=\"width:%.3f%%\"></i>",
                    fmin(s->busy_ms, s->time_ms) / most * 100);
    if (isfinite(s->floor_ms))
        strbuf_addf(out, "<i class=\"floor\" style=\"left:calc(%.3f%% - 1px)\"></i>",
                    fmin(100, s->floor_ms / most * 100));
    strbuf_addf(out, "</div><div class=\"val\">%s%s", text_ms(s->time_ms).s, view_recorded_words(s));
    if (isfinite(s->distance) && !view_was_busy(v))
        strbuf_addf(out, " <span>%s the roofline time%s%s%s</span>", text_times(s->distance).s,
                    s->over.brief ? " (" : "", s->over.brief ? s->over.brief : "", s->over.brief ? ")" : "");
    strbuf_addstr(out, "</div></div>\n");
}

static void stage_bars(const struct view *v, struct strbuf *out) {
    double most = 0;
    bool floors = false, busy = view_knows_busy(v), unknown = false;
    for (size_t i = 0; i < v->nstages; i++) {
        if (isfinite(v->stages[i]->time_ms)) most = fmax(most, v->stages[i]->time_ms);
        floors |= isfinite(v->stages[i]->floor_ms);
        unknown |= isfinite(v->stages[i]->time_ms) && !isfinite(v->stages[i]->busy_ms);
    }
    if (!(most > 0)) return;
    strbuf_addstr(out, "<div class=\"key\">");
    if (busy)
        strbuf_addstr(out, view_on_cpu(v)
                               ? "<span><i style=\"background:var(--accent)\"></i>busy</span>"
                               : "<span><i style=\"background:var(--accent)\"></i>GPU busy</span>");
    if (busy) strbuf_addstr(out, "<span><i style=\"background:var(--idle)\"></i>not busy</span>");
    if (unknown)
        strbuf_addstr(out, "<span><i style=\"background:var(--accent-soft)\"></i>time, busy or not</span>");
    if (floors)
        strbuf_addstr(out, "<span><i class=\"tick\"></i>roofline time: sum over operators of the larger of "
                           "compute time and memory time</span>");
    strbuf_addstr(out, "</div>\n<div class=\"bars\">\n");
    for (size_t i = 0; i < v->nstages; i++)
        if (isfinite(v->stages[i]->time_ms)) stage_bar(v, v->stages[i], most, out);
    strbuf_addstr(out, "</div>\n");
}

static void refusals(const struct view *v, struct strbuf *out) {
    for (size_t i = 0; i < v->nstages; i++) {
        struct strbuf refusal = STRBUF_INIT;
        story_refusal(v->stages[i], &story_html, &refusal);
        paragraph("small soft", &refusal, out);
    }
}

static void reasons(const struct view *v, struct strbuf *out) {
    struct strbuf bandwidth = STRBUF_INIT;
    story_bandwidth(v, &story_html, &bandwidth);
    paragraph("small soft", &bandwidth, out);
    for (size_t i = 0; i < v->nstages; i++) {
        struct strbuf reason = STRBUF_INIT;
        story_over(v->stages[i], &story_html, &reason);
        paragraph("small soft", &reason, out);
    }
}

/* Frees the table. Writes nothing if it has no rows. */
static void part(struct table *t, const char *heading, const char *remark, struct strbuf *out) {
    if (table_rows(t) == 0) {
        table_free(t);
        return;
    }
    if (heading) strbuf_addf(out, "<h3 style=\"margin-top:26px\">%s</h3>\n", heading);
    if (remark)
        strbuf_addf(out, "<p class=\"small soft\"%s>%s</p>\n", heading ? "" : " style=\"margin-top:14px\"",
                    remark);
    html_table(out, t);
}

void html_stages(const struct view *v, struct strbuf *out) {
    struct table t;
    struct strbuf note = STRBUF_INIT;
    if (v->nstages == 0) return;
    html_section(out, "stages", "Stages", NULL);
    strbuf_addstr(out, "<p class=\"lede\">Times: ");
    html_escape(out, view_time_source(v, v->stages[0]));
    strbuf_addstr(out, ".</p>\n");
    stage_bars(v, out);
    rows_stages_md(v, &t);
    html_table(out, &t);
    if (view_two_runs(v)) strbuf_addf(out, "<p class=\"small soft\">%s</p>\n", story_two_runs(v));
    rows_substages_md(v, &t);
    part(&t, NULL, "Substages. Their time is already included in the stages above.", out);
    struct strbuf vision = STRBUF_INIT;
    rows_vision_note(v, &vision);
    if (vision.len) {
        strbuf_addstr(out, "<p class=\"small soft\">");
        html_escape(out, vision.buf);
        strbuf_addstr(out, "</p>\n");
    }
    strbuf_free(&vision);
    reasons(v, out);
    struct strbuf no_model = STRBUF_INIT;
    rows_no_model_note(v, &no_model);
    if (no_model.len) {
        strbuf_addstr(out, "<p class=\"small soft\">");
        html_escape(out, no_model.buf);
        strbuf_addstr(out, "</p>\n");
    }
    strbuf_free(&no_model);
    rows_aggregates_md(v, &t);
    part(&t, "Timed repeats", NULL, out);
    rows_stability_md(v, &t);
    part(&t, "Stability", NULL, out);
    rows_tokens_md(v, &t);
    part(&t, "Time per output token",
         "Recorded run, within one stage. For servers that label steps: time from step to step.", out);
    rows_overhead_md(v, &t);
    part(&t, "Profiling overhead",
         "Latencies are measured without recording. Above 1.25x, shares and idle times are distorted: use a "
         "lighter preset.",
         out);
    rows_counters_md(v, &t);
    rows_counters_note(v, &note);
    part(&t, "Hardware counters and model estimates", note.buf, out);
    strbuf_free(&note);
    html_section_end(out);
}

/* CSS class of the role with this name; "idle" for idle time. */
static struct chart_class role_swatch(const char *name) {
    int role = 0;
    while (role < ROLE_END && strcmp(kernel_role_name(role), name) != 0) role++;
    if (role == ROLE_END) return (struct chart_class){ "idle" };
    return chart_class('c', chart_role_color(role));
}

/* Recognised phases and steps, and the anatomy of a token. */
void html_understood(const struct view *v, struct strbuf *out) {
    struct strbuf note = STRBUF_INIT, anatomy = STRBUF_INIT;
    struct table t;
    if (!v->a || !v->a->recognition.nsteps) return;
    rows_recognition_note(v, &note);
    html_section(out, "steps", "Steps",
                 note.len ? note.buf : "Read from kernels and copies, without the labels.");
    rows_phases_md(v, &t);
    part(&t, "Phases", "Verdict, shares and findings are about the steady work only.", out);
    rows_kinds_md(v, &t);
    struct strbuf times = STRBUF_INIT;
    rows_kinds_note(v, &times);
    strbuf_addf(&times, "%sEvery step is in steps.csv.", times.len ? " " : "");
    part(&t, "Recognised steps", times.buf, out);
    strbuf_free(&times);
    if (html_has_chart(v, chart_batch)) {
        strbuf_addstr(out, "<h3>Batch over time</h3>\n");
        html_chart(v, chart_batch, out);
    }
    if (v->a->anatomy) {
        rows_anatomy_note(v, &anatomy);
        strbuf_addstr(out, "<h3>The anatomy of a token</h3>\n");
        html_chart(v, chart_anatomy, out);
        strbuf_addf(out, "<p class=\"small soft\" style=\"margin-top:14px\">%s</p>\n", anatomy.buf);
        rows_anatomy_md(v, &t);
        html_table_colored(out, &t, role_swatch);
    }
    strbuf_free(&anatomy);
    strbuf_free(&note);
    html_section_end(out);
}

void html_idle(const struct view *v, struct strbuf *out) {
    struct table t;
    rows_idle_md(v, &t);
    if (table_rows(&t) == 0) {
        table_free(&t);
        refusals(v, out);
        return;
    }
    html_section(out, "idle", "GPU idle time by cause",
                 "Milliseconds per step in the recorded run. The causes of a stage add up to its idle "
                 "time. With several GPUs, the mean over GPUs.");
    html_table(out, &t);
    rows_queue_md(v, &t);
    part(&t, "Launch queue",
         "Number of launches waiting when a kernel starts. It stays above 0 while the host runs ahead of the "
         "GPU. \"Queue empty\": share of kernels that started with no other launch waiting.",
         out);
    rows_timeline_md(v, &t);
    part(&t, "Timeline of each device",
         "Every moment belongs to one stage, to the time between steps, or is unrecorded.", out);
    rows_communication_md(v, &t);
    part(&t, "Communication", "Communication kernels, and how much of their time overlapped other kernels.",
         out);
    refusals(v, out);
    html_section_end(out);
}
