/* Hardware counters in the tables: columns of the kernel tables, and stages beside what the model says.
 * Columns are there only where counters are. */
#include <math.h>

#include "analyze/counters.h"
#include "report/rows.h"
#include "report/text.h"

#define WORTH_SAYING 0.001 /* of the kernels' time */

static void percent(struct table *t, double pct) { table_cell(t, "%s", text_percent(pct / 100).s); }

static const struct {
    const char *head;
    enum table_align align;
} stage_columns[] = {
    { "stage", TABLE_LEFT },          { "covered", TABLE_RIGHT },      { "DRAM", TABLE_RIGHT },
    { "MBU recorded", TABLE_RIGHT },  { "DRAM GB/s", TABLE_RIGHT },    { "tensor", TABLE_RIGHT },
    { "at peak clock", TABLE_RIGHT }, { "MFU recorded", TABLE_RIGHT }, { "SM", TABLE_RIGHT },
    { "active", TABLE_RIGHT },        { "SM clock GHz", TABLE_RIGHT }
};

void rows_counters_md(const struct view *v, struct table *t) {
    table_init(t);
    for (size_t i = 0; i < sizeof stage_columns / sizeof stage_columns[0]; i++)
        table_column(t, stage_columns[i].head, stage_columns[i].align);
    for (size_t i = 0; v->a && i < v->a->nstages; i++) {
        const struct analysis_stage *s = &v->a->stages[i];
        const struct counter_means *m = s->counters;
        if (s->outside || !m) continue;
        table_cell(t, "%s", s->path ? s->path : s->name);
        table_cell(t, "%s", text_percent(m->covered).s);
        percent(t, m->dram_pct);
        percent(t, 100 * s->recorded_mbu);
        table_cell(t, "%s", text_num(m->dram_bytes_per_s * 1e-9, 0).s);
        percent(t, m->mean[COUNTER_TENSOR]);
        percent(t, m->tensor_at_peak_pct);
        percent(t, 100 * s->recorded_mfu);
        percent(t, m->mean[COUNTER_SM]);
        percent(t, m->mean[COUNTER_OCCUPANCY]);
        table_cell(t, "%s", text_num(m->mean[COUNTER_CLOCK] * 1e-9, 2).s);
    }
}

void rows_counters_note(const struct view *v, struct strbuf *out) {
    const struct analysis_counters *c = v->a ? v->a->counters : NULL;
    if (!c || c->nmeans == 0) return;
    strbuf_addf(out,
                "Of the recorded run, idle time included: %llu samples, one every %s us. DRAM stands beside "
                "the MBU of that "
                "run, tensor activity at the clock of the peak beside its MFU.",
                (unsigned long long)c->samples, text_num(c->interval_ns * 1e-3, 0).s);
    if (c->concurrent >= WORTH_SAYING)
        strbuf_addf(out,
                    " For %s of the kernels' time several ran side by side: each is given an even share of "
                    "such moments, "
                    "as counters cannot tell them apart.",
                    text_percent(c->concurrent).s);
}
