#include "report/story.h"

#include <math.h>

#include "base/html.h"
#include "report/text.h"

#define STAGES_TOLD 4

const struct story_form story_html = { html_escape, "<b>", "</b>" };
const struct story_form story_markdown = { text_markdown, "**", "**" };

const char story_incomplete[] = "This run ended early: the report shows what there is.";
const char story_unstable[] =
    "Unstable: the repeats of a stage differ by more than 5% (CV). Small differences mean nothing.";

void story_answer(const struct view *v, const struct story_form *form, struct strbuf *out) {
    size_t said = 0;
    for (size_t i = 0; i < v->nstages && said < STAGES_TOLD; i++) {
        const struct view_stage *s = &v->stages[i];
        if (!view_is_told(s)) continue;
        strbuf_addf(out, "%s%s", said++ ? "; " : "", form->strong);
        form->text(out, s->name);
        strbuf_addf(out, " takes %s%s", text_ms(s->time_ms).s, form->end_strong);
        if (isfinite(s->distance))
            strbuf_addf(out, ", %s what the hardware allows", text_times(s->distance).s);
        if (isfinite(s->busy_share) && !view_on_cpu(v))
            strbuf_addf(out, ", the GPU works %s of it", text_percent(s->busy_share).s);
    }
    if (said) strbuf_addch(out, '.');
}

void story_refusal(const struct view_stage *s, const struct story_form *form, struct strbuf *out) {
    const struct analysis_stage *t = s->trace;
    if (!t || t->idle_known || !t->idle_refused || t->outside || t->on_cpu || s->parent) return;
    strbuf_addstr(out, "No idle verdict for ");
    form->text(out, t->name);
    strbuf_addstr(out, ": ");
    form->text(out, t->idle_refused);
    strbuf_addch(out, '.');
}

const char *story_no_finding(const struct view *v) {
    return v->a ? "No finding: no rule has evidence in this trace."
                : "No finding: there is no trace to look at.";
}
