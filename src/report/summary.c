/* stakeholder_summary.md: the results on one page. */
#include <math.h>

#include "base/text.h"
#include "base/util.h"
#include "report/markdown.h"
#include "report/report.h"
#include "report/rows.h"
#include "report/story.h"

static void stage_sentence(const struct analysis_stage *s, struct strbuf *out) {
    text_markdown(out, s->name);
    strbuf_addf(out, " takes %s%s", text_ms(s->time_ms).s, view_recorded_words(s));
    if (isfinite(s->distance)) strbuf_addf(out, ", %s the roofline time", text_times(s->distance).s);
    if (isfinite(s->mfu)) strbuf_addf(out, "; it uses %s of the compute", text_percent(s->mfu).s);
    if (isfinite(s->mbu))
        strbuf_addf(out, "%s %s of the memory bandwidth", isfinite(s->mfu) ? " and" : "; it uses",
                    text_percent(s->mbu).s);
    if (s->over.brief) strbuf_addf(out, " (%s)", s->over.brief);
    strbuf_addstr(out, ". ");
}

static void narrative(const struct view *v, struct strbuf *out) {
    strbuf_addstr(out, "## Summary\n\n");
    for (size_t i = 0; i < v->nstages; i++)
        if (view_stage_has_sentence(v->stages[i])) stage_sentence(v->stages[i], out);
    if (isfinite(view_model_mfu(v)))
        strbuf_addf(out, "Overall, the model reaches %s of the peak%s%s%s. ",
                    text_percent(view_model_mfu(v)).s, v->run->analysis->model_over.brief ? " (" : "",
                    v->run->analysis->model_over.brief ? v->run->analysis->model_over.brief : "",
                    v->run->analysis->model_over.brief ? ")" : "");
    strbuf_addstr(out, "\n\nWhat to change first:\n\n");
    markdown_findings(v, 3, out);
    if (view_unstable(v))
        strbuf_addstr(
            out, "The repeats vary by more than 5%. Measure again on an idle machine before deciding.\n\n");
}

static void operators_and_kernels(const struct view *v, struct strbuf *out) {
    struct table t;
    rows_operators_md(v, 10, &t);
    markdown_section_always(out, "Top Operators", &t);
    rows_kernels_md(v, 10, &t);
    markdown_section_always(out, "Top Kernels", &t);
}

void report_summary(const struct view *v, struct strbuf *out) {
    struct table t;
    markdown_head(v, out);
    markdown_caveats(v, out);
    rows_environment_md(v, &t);
    markdown_section_always(out, "Environment", &t);
    rows_aggregates_md(v, &t);
    bool timed = table_rows(&t) > 0;
    markdown_section_always(out, "Aggregates", &t);
    if (!timed) strbuf_addstr(out, "No timed repeats. Times are from the recorded run.\n\n");
    markdown_stages(v, "Per-Stage Timings", out);
    rows_mfu_md(v, &t);
    markdown_section_always(out, "MFU", &t);
    if (v->nstages) {
        strbuf_addf(out, "Model MFU: %s. Peaks: ", text_percent(view_model_mfu(v)).s);
        story_peaks(v, &story_markdown, out);
        strbuf_addstr(out, ".\n\n");
    }
    markdown_over(v, out);
    operators_and_kernels(v, out);
    narrative(v, out);
}
