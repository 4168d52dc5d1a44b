/* The summary on the terminal: stages, figures, findings, kernels, steps and caveats. */
#include <math.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/util.h"
#include "base/wrap.h"
#include "report/report.h"
#include "report/rows.h"
#include "report/story.h"
#include "report/unrecorded.h"
#include "report/view.h"

#define BOLD "\033[1m"
#define YELLOW "\033[33m"
#define PLAIN "\033[0m"

/* Plain text without screen->color. */
static void styled(const struct report_screen *screen, struct strbuf *out, const char *style,
                   const char *text) {
    strbuf_addf(out, "%s%s%s", screen->color ? style : "", text, screen->color ? PLAIN : "");
}

/* Drops up to three columns until the table fits, the least important first. */
static void drop_columns(struct table *t, size_t width) {
    static const char *const least[] = { "spread ms", "roofline ms", "launches/tok" };
    for (size_t i = 0; i < COUNTOF(least) && table_text_width(t) > width; i++) {
        size_t column = table_find(t, least[i]);
        if (column < t->heads.n) table_drop(t, column);
    }
}

static void stages(const struct view *v, const struct report_screen *screen, struct strbuf *out) {
    struct table t;
    rows_stages_terminal(v, 12, &t);
    drop_columns(&t, screen->width);
    t.text_max_width = 40;
    t.text_line_width = screen->width;
    if (table_rows(&t)) table_text(&t, out);
    table_free(&t);
    struct strbuf bandwidth = STRBUF_INIT, vision = STRBUF_INIT;
    rows_vision_total(v, &vision);
    if (vision.len) wrap_text(out, vision.buf, 0, screen->width, 2);
    strbuf_free(&vision);
    story_bandwidth(v, &story_plain, &bandwidth);
    if (bandwidth.len) wrap_text(out, bandwidth.buf, 0, screen->width, 2);
    strbuf_free(&bandwidth);
    for (size_t i = 0; i < v->nstages; i++) {
        struct strbuf reason = STRBUF_INIT;
        story_over(v->stages[i], &story_plain, &reason);
        if (reason.len) wrap_text(out, reason.buf, 0, screen->width, 2);
        strbuf_free(&reason);
    }
}

static void unrecorded(const struct view *v, const struct report_screen *screen, struct strbuf *out) {
    struct strbuf line = STRBUF_INIT;
    if (v->a) text_unrecorded(&line, &v->a->unrecorded);
    if (line.len) wrap_text(out, line.buf, 0, screen->width, 2);
    strbuf_free(&line);
}

/* At most 8 figures. */
static void figures(const struct view *v, const struct report_screen *screen, struct strbuf *out) {
    struct strbuf one = STRBUF_INIT;
    size_t at = 0;
    for (size_t i = 0; i < MIN(v->run->nfigures, 8); i++) {
        const struct run_figure *f = &v->run->figures[i];
        double median = run_figure_stats(v->run, f).median;
        if (isnan(median)) continue;
        strbuf_reset(&one);
        strbuf_addf(&one, "%s %s %s", f->name, text_ms_number(median).s, f->unit ? f->unit : "");
        size_t w = utf8_width(one.buf, one.len);
        if (at) strbuf_addstr(out, at + 3 + w > screen->width ? "\n" : "   ");
        at = at && at + 3 + w <= screen->width ? at + 3 + w : w;
        strbuf_add(out, one.buf, one.len);
    }
    if (at) strbuf_addch(out, '\n');
    strbuf_free(&one);
}

static void findings(const struct view *v, const struct report_screen *screen, struct strbuf *out) {
    const struct analysis_finding *f;
    size_t n = view_findings(v, &f);
    if (n == 0) {
        if (v->a) strbuf_addf(out, "\n%s\n", story_no_finding(v));
        return;
    }
    styled(screen, out, BOLD, "\nWhat to change first\n");
    for (size_t i = 0; i < MIN(n, 3); i++) {
        strbuf_addf(out, " %zu. ", i + 1);
        wrap_text(out, f[i].title, 4, screen->width, 4);
        strbuf_addstr(out, "    ");
        size_t at = 4;
        if (isfinite(f[i].saving_ms)) {
            struct strbuf saving = STRBUF_INIT;
            strbuf_addf(&saving, "at most %s%s (%s).", text_ms(f[i].saving_ms).s,
                        view_saving_unit(v->a, &f[i]), text_percent(f[i].saving_percent / 100).s);
            styled(screen, out, BOLD, saving.buf);
            strbuf_addch(out, ' ');
            at += saving.len + 1;
            strbuf_free(&saving);
        }
        wrap_text(out, f[i].advice, at, screen->width, 4);
    }
}

static void kernels(const struct view *v, const struct report_screen *screen, struct strbuf *out) {
    struct table t;
    if (!v->a || !v->a->nkernels) return;
    styled(screen, out, BOLD,
           view_unrecorded(v) ? "\nKernels of the recorded steps"
           : view_two_runs(v) ? "\nKernels of the recorded run"
                              : "\nKernels");
    strbuf_addf(out, ": %s, %s %s", text_count(v->a->kernels_total).s,
                view_on_cpu(v) ? "busy" : "kernel time", text_ms(v->a->conservation.busy / 1e6).s);
    if (view_busy_devices(v) > 1) strbuf_addf(out, " (sum of %zu GPUs)", view_busy_devices(v));
    strbuf_addch(out, '\n');
    rows_kernels(v, COLUMN_DOC_TERMINAL, 5, &t);
    t.text_max_width = screen->width > 70 ? screen->width - 50 : 24;
    t.text_line_width = screen->width;
    table_text(&t, out);
    table_free(&t);
}

static void caveat(const struct report_screen *screen, const char *text, struct strbuf *out) {
    styled(screen, out, YELLOW, "!");
    strbuf_addch(out, ' ');
    wrap_text(out, text, 2, screen->width, 2);
}

/* Omits warnings that the verdict or an earlier message already reports. Returns the number of the first
 * warnings of the run that are shown or omitted; the limit hides the rest. */
static size_t caveats(const struct view *v, const struct report_screen *screen, struct strbuf *out) {
    size_t shown = 0, handled = 0;
    if (v->run->incomplete) strbuf_addf(out, "\n! %s\n", story_incomplete);
    if (view_warns_unstable(v)) caveat(screen, story_unstable, out);
    for (; handled < v->run->nwarnings && shown < REPORT_TERMINAL_WARNINGS; handled++) {
        const char *warning = v->run->warnings[handled];
        if (story_has_warning(v, warning) || (screen->is_known && screen->is_known(warning))) continue;
        caveat(screen, warning, out);
        shown++;
    }
    for (size_t i = 0; v->a && i < v->a->nnotes && shown < REPORT_TERMINAL_WARNINGS; i++) {
        if (v->a->notes[i].severity != ANALYSIS_WARNING || view_has_warning(v, v->a->notes[i].text)) continue;
        caveat(screen, v->a->notes[i].text, out);
        shown++;
    }
    return handled;
}

static void answer(const struct view *v, const struct report_screen *screen, struct strbuf *out) {
    struct strbuf sentence = STRBUF_INIT;
    story_answer(v, &story_plain, &sentence);
    if (sentence.len) wrap_text(out, sentence.buf, 0, screen->width, 0);
    strbuf_free(&sentence);
}

static void peaks(const struct view *v, const struct report_screen *screen, struct strbuf *out) {
    struct strbuf line = STRBUF_INIT;
    strbuf_addstr(&line, "Peaks: ");
    story_peaks(v, &story_plain, &line);
    wrap_text(out, line.buf, 0, screen->width, 7);
    strbuf_free(&line);
}

/* For programs without annotations. */
static void understood(const struct view *v, const struct report_screen *screen, struct strbuf *out) {
    struct strbuf note = STRBUF_INIT;
    rows_recognition_note(v, &note);
    bool kinds = note.len && v->a->recognition.llm;
    if (note.len) wrap_text(out, note.buf, 0, screen->width, 0);
    for (size_t i = 0; kinds && i < v->a->nstep_kinds; i++) {
        strbuf_reset(&note);
        rows_kind_sentence(&v->a->step_kinds[i], &note);
        if (note.len) wrap_text(out, note.buf, 0, screen->width, 2);
    }
    strbuf_free(&note);
}

#define ROLES_SHOWN 8

static void anatomy(const struct view *v, const struct report_screen *screen, struct strbuf *out) {
    struct table t;
    if (!v->a || !v->a->recognised || !v->a->anatomy) return;
    styled(screen, out, BOLD, "\nA token\n");
    rows_anatomy_terminal(v, ROLES_SHOWN, &t);
    t.text_line_width = screen->width;
    table_text(&t, out);
    table_free(&t);
}

size_t report_terminal(const struct view *v, const struct report_screen *screen, struct strbuf *out) {
    wrap_text(out, text_or_dash(v->run->title), 0, screen->width, 0);
    answer(v, screen, out);
    understood(v, screen, out);
    if (isfinite(view_peak_flops(v)) || isfinite(view_peak_bytes(v))) peaks(v, screen, out);
    strbuf_addch(out, '\n');
    stages(v, screen, out);
    unrecorded(v, screen, out);
    figures(v, screen, out);
    anatomy(v, screen, out);
    findings(v, screen, out);
    kernels(v, screen, out);
    return caveats(v, screen, out);
}
