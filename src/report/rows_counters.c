/* Hardware counters per stage. */
#include "analyze/counters.h"
#include "base/text.h"
#include "base/util.h"
#include "report/rows.h"
#include "report/stage_columns.h"

#define CONCURRENT_MIN 0.001 /* share of the kernel time */

static bool has_counters(const void *item) {
    const struct analysis_stage *s = item;
    return !s->outside && s->counters;
}

void rows_counters_md(const struct view *v, struct table *t) {
    view_table(stage_counter_columns, COUNTOF(stage_counter_columns), COLUMN_DOC_MARKDOWN, v,
               rows_trace_stages(v, has_counters), t);
}

void rows_counters_note(const struct view *v, struct strbuf *out) {
    const struct analysis_counters *c = v->a ? v->a->counters : NULL;
    if (!c || c->nmeans == 0) return;
    strbuf_addstr(out, "Recorded run, idle time included");
    if (c->samples) /* 0: no kernels on sampled GPUs */
        strbuf_addf(out, ": %llu samples, one every %s us", (unsigned long long)c->samples,
                    text_num(c->interval_ns * 1e-3, 0).s);
    strbuf_addstr(out,
                  ". Compare DRAM with the MBU of the same run, and tensor activity (at the clock of the "
                  "peak) with its MFU.");
    if (c->concurrent >= CONCURRENT_MIN)
        strbuf_addf(out,
                    " Several kernels ran at the same time for %s of the kernel time. Counters cannot "
                    "separate them, so each of them gets an equal share.",
                    text_percent(c->concurrent).s);
}
