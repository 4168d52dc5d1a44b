/* The stages: time, busy time, and a tick at the roofline time. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/svg.h"
#include "base/text.h"
#include "report/charts.h"
#include "report/story.h"

static double longest_stage(const struct view *v) {
    double most = 0;
    for (size_t i = 0; i < v->nstages; i++)
        if (isfinite(v->stages[i]->time_ms)) most = fmax(most, v->stages[i]->time_ms);
    return most;
}

/* Labels with a reason for an excessive ratio need more space. */
static bool has_reason(const struct view *v) {
    for (size_t i = 0; i < v->nstages; i++)
        if (v->stages[i]->over.brief) return true;
    return false;
}

bool chart_stages(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    double most = longest_stage(v), left = 110, right = has_reason(v) ? 420 : 220, row = 30, y = 12;
    if (!(most > 0)) return false;
    double scale = (form->width - left - right) / most;
    chart_open(form, row * (double)v->nstages + 24,
               !view_knows_busy(v) ? "Time of each stage, and roofline time"
               : view_on_cpu(v)    ? "Time of each stage, busy time and roofline time"
                                   : "Time of each stage, GPU busy time and roofline time",
               out);
    for (size_t i = 0; i < v->nstages; i++) {
        const struct analysis_stage *s = v->stages[i];
        if (!isfinite(s->time_ms)) continue;
        bool compared = isfinite(s->distance) && !view_was_busy(v);
        char label[160];
        snprintf(label, sizeof label, "%s%s%s", text_ms(s->time_ms).s, view_recorded_words(s),
                 compared ? ", " : "");
        if (compared)
            snprintf(label + strlen(label), sizeof label - strlen(label), "%s the roofline time%s%s",
                     text_times(s->distance).s, s->over.brief ? ": " : "",
                     s->over.brief ? s->over.brief : "");
        svg_text(out, s->depth ? 14 : 0, y + 14, SVG_START, s->depth ? "" : "ink", s->name);
        struct strbuf title = STRBUF_INIT;
        story_stage_bar(v, s, &title);
        bool busy_known = isfinite(s->busy_ms);
        svg_rect_titled(out, left, y, s->time_ms * scale, 20, busy_known ? "idle" : "unknown", title.buf);
        if (busy_known)
            svg_rect_titled(out, left, y, fmin(s->busy_ms, s->time_ms) * scale, 20, "busy", title.buf);
        strbuf_free(&title);
        if (isfinite(s->floor_ms)) svg_rect(out, left + s->floor_ms * scale - 1, y - 4, 2, 28, "tick");
        svg_text(out, form->width - right + 10, y + 14, SVG_START, "ink", label);
        y += row;
    }
    svg_close(out);
    return true;
}
