#include "report/markdown.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "report/charts.h"
#include "report/rows.h"
#include "report/story.h"

static bool markdown_section(struct strbuf *out, const char *heading, struct table *t) {
    bool any = table_rows(t) > 0;
    if (any) {
        strbuf_addf(out, "## %s\n\n", heading);
        table_markdown(t, out);
        strbuf_addch(out, '\n');
    }
    table_free(t);
    return any;
}

void markdown_section_always(struct strbuf *out, const char *heading, struct table *t) {
    if (table_rows(t) == 0)
        for (size_t i = 0; i < t->heads.n; i++) table_cell(t, "%s", text_or_dash(NULL));
    markdown_section(out, heading, t);
}

static void markdown_list(struct strbuf *out, const char *const *lines, size_t n) {
    for (size_t i = 0; i < n; i++) {
        strbuf_addstr(out, "- ");
        text_markdown(out, lines[i]);
        strbuf_addch(out, '\n');
    }
    if (n) strbuf_addch(out, '\n');
}

static void add_fact(struct strbuf *out, const char *what, const char *value) {
    if (!value || !*value) return;
    strbuf_addf(out, "%s", what);
    text_markdown(out, value);
    strbuf_addstr(out, "  \n");
}

/* Frees the sentence. Writes nothing if it is empty. */
static void paragraph(struct strbuf *sentence, struct strbuf *out) {
    if (sentence->len) strbuf_addf(out, "%s\n\n", sentence->buf);
    strbuf_free(sentence);
}

void markdown_head(const struct view *v, struct strbuf *out) {
    const struct run_info *in = v->run;
    strbuf_addstr(out, "# ");
    text_markdown(out, text_or_dash(in->title));
    strbuf_addstr(out, "\n\n");
    struct strbuf answer = STRBUF_INIT;
    story_answer(v, &story_markdown, &answer);
    paragraph(&answer, out);
    add_fact(out, "Run: ", in->run_id);
    if (in->started_wall_ns) add_fact(out, "Date: ", text_date(in->started_wall_ns).s);
    add_fact(out, "Device: ", view_device(v));
    add_fact(out, "Engine: ", in->engine);
    if (isfinite(view_peak_flops(v)) || isfinite(view_peak_bytes(v))) {
        strbuf_addstr(out, "Peaks: ");
        story_peaks(v, &story_markdown, out);
        strbuf_addstr(out, "  \n");
    }
    if (in->repeats)
        strbuf_addf(out, "Timed repeats: %zu (failed: %zu)  \n", in->repeats, in->failed_repeats);
    strbuf_addch(out, '\n');
    if (in->incomplete) strbuf_addf(out, "**%s**\n\n", story_incomplete);
}

void markdown_caveats(const struct view *v, struct strbuf *out) {
    if (view_warns_unstable(v)) strbuf_addf(out, "**%s**\n\n", story_unstable);
    struct strlist caveats = { 0 };
    view_caveats(v, &caveats);
    if (caveats.n) {
        strbuf_addstr(out, "## Caveats\n\n");
        markdown_list(out, (const char *const *)caveats.v, caveats.n);
    }
    strlist_free(&caveats);
}

static void finding(const struct analysis *a, const struct analysis_finding *f, size_t rank,
                    struct strbuf *out) {
    strbuf_addf(out, "%zu. **", rank);
    text_markdown(out, f->title);
    strbuf_addstr(out, "**");
    if (isfinite(f->saving_ms)) {
        const char *stage = view_stage_name(a, f->stage);
        strbuf_addf(out, " (at most %s%s, %s of ", text_ms(f->saving_ms).s, view_saving_unit(a, f),
                    text_percent(f->saving_percent / 100).s);
        text_markdown(out, stage ? stage : "the run");
        strbuf_addf(out, "%s)", f->outside_ms > 0 ? view_and_gaps : "");
    }
    strbuf_addstr(out, "  \n   ");
    text_markdown(out, f->evidence);
    strbuf_addstr(out, "  \n   ");
    text_markdown(out, f->advice);
    strbuf_addf(out, " Confidence: %s.\n", analysis_confidence_name(f->confidence));
}

void markdown_findings(const struct view *v, size_t limit, struct strbuf *out) {
    const struct analysis_finding *f;
    size_t n = view_findings(v, &f);
    if (n == 0) {
        strbuf_addf(out, "%s\n\n", story_no_finding(v));
        return;
    }
    for (size_t i = 0; i < MIN(n, limit); i++) finding(v->a, &f[i], i + 1, out);
    strbuf_addch(out, '\n');
}

void markdown_over(const struct view *v, struct strbuf *out) {
    struct strbuf bandwidth = STRBUF_INIT;
    story_bandwidth(v, &story_markdown, &bandwidth);
    paragraph(&bandwidth, out);
    for (size_t i = 0; i < v->nstages; i++) {
        struct strbuf reason = STRBUF_INIT;
        story_over(v->stages[i], &story_markdown, &reason);
        paragraph(&reason, out);
    }
}

/* Substages are in a note, not in rows, because their times are part of their stages' times. */
void markdown_stages(const struct view *v, const char *heading, struct strbuf *out) {
    struct table t;
    rows_stages_md(v, &t);
    markdown_section_always(out, heading, &t);
    if (!v->nstages) return;
    struct strbuf parts = STRBUF_INIT;
    rows_vision_note(v, &parts);
    if (parts.len) {
        text_markdown(out, parts.buf);
        strbuf_addstr(out, "\n\n");
    }
    strbuf_free(&parts);
    markdown_over(v, out);
    struct strbuf no_model = STRBUF_INIT;
    rows_no_model_note(v, &no_model);
    if (no_model.len) {
        text_markdown(out, no_model.buf);
        strbuf_addstr(out, "\n\n");
    }
    strbuf_free(&no_model);
    if (view_two_runs(v)) strbuf_addf(out, "%s\n\n", story_two_runs(v));
    for (size_t i = 0; i < v->nstages; i++) {
        struct strbuf refusal = STRBUF_INIT;
        story_refusal(v->stages[i], &story_markdown, &refusal);
        paragraph(&refusal, out);
    }
}

static bool has_chart(const struct view *v, const struct chart *c) {
    struct strbuf s = STRBUF_INIT;
    bool drawn = c->draw(v, &(struct chart_form){ 800, "chart", true }, &s);
    strbuf_free(&s);
    return drawn;
}

/* Recognised steps and the anatomy of a token. For programs without annotations, also the phases. */
static void understood(const struct view *v, struct strbuf *out) {
    struct strbuf note = STRBUF_INIT;
    struct table t;
    rows_recognition_note(v, &note);
    if (note.len) {
        strbuf_addstr(out, "## How the program was understood\n\n");
        text_markdown(out, note.buf);
        strbuf_addstr(out, "\n\n");
        rows_phases_md(v, &t);
        markdown_section(out, "Phases", &t);
    }
    rows_kinds_md(v, &t);
    if (markdown_section(out, "Recognised steps", &t)) {
        strbuf_reset(&note);
        rows_kinds_note(v, &note);
        if (note.len) strbuf_addf(out, "%s\n\n", note.buf);
    }
    rows_anatomy_md(v, &t);
    if (table_rows(&t)) {
        strbuf_reset(&note);
        rows_anatomy_note(v, &note);
        markdown_section(out, "The anatomy of a token", &t);
        text_markdown(out, note.buf);
        strbuf_addstr(out, "\n\n");
    } else {
        table_free(&t);
    }
    strbuf_free(&note);
}

static void chart_links(const struct view *v, struct strbuf *out) {
    for (size_t i = 0; i < charts_n; i++)
        if (has_chart(v, &charts[i]))
            strbuf_addf(out, "![%s](charts/%s.svg)\n\n", charts[i].name, charts[i].name);
}

static void notes(const struct view *v, struct strbuf *out) {
    size_t n = v->a ? v->a->nnotes : 0;
    if (n + v->run->nassumptions == 0) return;
    strbuf_addstr(out, "## Data sources and assumptions\n\n");
    for (size_t i = 0; i < n; i++) {
        strbuf_addstr(out, v->a->notes[i].severity == ANALYSIS_WARNING ? "- Warning: " : "- ");
        text_markdown(out, v->a->notes[i].text);
        strbuf_addch(out, '\n');
    }
    markdown_list(out, v->run->assumptions, v->run->nassumptions);
    if (!v->run->nassumptions) strbuf_addch(out, '\n');
}

static void conservation(const struct view *v, struct strbuf *out) {
    if (!v->a || !(v->a->conservation.busy > 0)) return;
    const struct analysis_conservation *c = &v->a->conservation;
    strbuf_addf(out,
                "%s %s: each nanosecond is attributed to exactly one stage, one operator and one kernel "
                "category. Not in any stage: %s. Not in any operator: %s.",
                view_on_cpu(v) ? "Busy" : "Kernel time", text_ms(c->busy / 1e6).s,
                text_ms(c->outside_stages / 1e6).s, text_ms(c->outside_operators / 1e6).s);
    if (!view_on_cpu(v) && !v->a->timeline->containment)
        strbuf_addf(out, " Kernels with no matching launch: %s (%s).", text_count(c->unmatched_kernels).s,
                    text_ms(c->unmatched / 1e6).s);
    strbuf_addstr(out, "\n\n");
}

static void overhead(const struct view *v, struct strbuf *out) {
    struct table t;
    rows_overhead_md(v, &t);
    if (!markdown_section(out, "Profiling overhead", &t)) return;
    bool high = false;
    for (size_t i = 0; i < v->nstages; i++) high |= v->stages[i]->recording_cost > 1.25;
    if (high)
        strbuf_addstr(
            out, "Overhead above 25% distorts the shares and idle times of the recorded run. Use a lighter "
                 "preset (`profiling=min`). Latencies come from the timed repeats and are not affected.\n\n");
}

static void answers(const struct view *v, struct strbuf *out) {
    size_t n = MIN(v->run->nanswers, 5);
    if (n == 0) return;
    strbuf_addf(out, "## Generated text\n\n%zu of %zu; all in predictions.md.\n\n", n, v->run->answers_total);
    for (size_t i = 0; i < n; i++) {
        const struct run_answer *a = &v->run->answers[i];
        text_markdown(out, text_or_dash(a->input));
        strbuf_addf(out, ", %s new tokens\n\n", text_num(a->new_tokens, 0).s);
        text_markdown_block(out, "", story_reply(a));
        strbuf_addch(out, '\n');
    }
}

static void counters(const struct view *v, struct strbuf *out) {
    struct strbuf note = STRBUF_INIT;
    struct table t;
    rows_counters_md(v, &t);
    rows_counters_note(v, &note);
    if (markdown_section(out, "Hardware counters and model estimates", &t)) {
        text_markdown(out, note.buf);
        strbuf_addstr(out, "\n\n");
    }
    strbuf_free(&note);
}

static void profiles(const struct view *v, struct strbuf *out) {
    struct strbuf note = STRBUF_INIT;
    rows_profiles_note(v->a, &note);
    if (note.len) {
        text_markdown(out, note.buf);
        strbuf_addstr(out, "\n\n");
    }
    strbuf_free(&note);
}

/* A table without rows is written only in the report of an engine run. */
static void section(const struct view *v, struct strbuf *out, const char *heading, struct table *t) {
    if (v->run->engine)
        markdown_section_always(out, heading, t);
    else
        markdown_section(out, heading, t);
}

void report_markdown(const struct view *v, struct strbuf *out) {
    struct table t;
    markdown_head(v, out);
    strbuf_addstr(out, "## Verdict\n\n");
    markdown_findings(v, 12, out);
    markdown_caveats(v, out);
    markdown_stages(v, "Stages", out);
    understood(v, out);
    rows_aggregates_md(v, &t);
    section(v, out, "Timed repeats", &t);
    rows_tokens_md(v, &t);
    markdown_section(out, "Time per output token (recorded run)", &t);
    chart_links(v, out);
    counters(v, out);
    rows_timeline_md(v, &t);
    markdown_section(out, "Timeline of each device (recorded run)", &t);
    rows_idle_md(v, &t);
    markdown_section(out, "GPU idle time by cause (ms per step, recorded run)", &t);
    rows_queue_md(v, &t);
    markdown_section(out, "Launch queue", &t);
    rows_communication_md(v, &t);
    markdown_section(out, "Communication", &t);
    rows_categories_md(v, &t);
    markdown_section(out, view_on_cpu(v) ? "CPU time by category" : "GPU time by category", &t);
    conservation(v, out);
    rows_kernels_md(v, 20, &t);
    section(v, out, "Kernels", &t);
    profiles(v, out);
    rows_operators_md(v, 20, &t);
    section(v, out, "Operators", &t);
    rows_gemms_md(v, 15, &t);
    markdown_section(out, "Matrix products", &t);
    rows_memory_md(v, &t);
    markdown_section(out, "Memory", &t);
    rows_power_md(v, &t);
    markdown_section(out, "Power and clocks", &t);
    rows_stability_md(v, &t);
    markdown_section(out, "Stability", &t);
    overhead(v, out);
    answers(v, out);
    rows_environment_md(v, &t);
    section(v, out, "Environment", &t);
    notes(v, out);
    if (v->run->command) {
        strbuf_addstr(out, "## Reproduce\n\n");
        text_markdown_block(out, "sh", v->run->command);
    }
}
