/* Hardware counters in the tables: columns of the kernel tables, and stages beside what the model says.
 * Columns are there only where counters are. */
#include <math.h>

#include "report/rows.h"
#include "report/text.h"

#define WORTH_SAYING 0.001 /* of the kernels' time */

const struct counter_row *rows_counters_of(const struct view *v, uint32_t kernel) {
    return v->a && v->a->counters ? counters_of_kernel(v->a->counters, kernel) : NULL;
}

bool rows_have_counters(const struct view *v) { return v->a && v->a->counters && v->a->counters->nrows > 0; }

double rows_counter(const struct counter_row *r, enum counter_slot slot) { return r ? r->value[slot] : NAN; }

const char *rows_counter_bound(const struct counter_row *r) {
    return r && r->bound != COUNTER_BOUND_UNKNOWN ? counter_bound_name(r->bound) : NULL;
}

static void percent(struct table *t, double pct) { table_cell(t, "%s", text_percent(pct / 100).s); }

void rows_counter_heads(const struct view *v, struct table *t) {
    static const char *const heads[] = { "SM",        "tensor", "DRAM read",    "DRAM write",
                                         "DRAM GB/s", "active", "SM clock GHz", "of roof" };
    if (!rows_have_counters(v)) return;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) table_column(t, heads[i], TABLE_RIGHT);
    table_column(t, "bound", TABLE_LEFT);
    table_column(t, "counters", TABLE_LEFT);
}

void rows_counter_cells(const struct view *v, uint32_t kernel, struct table *t) {
    if (!rows_have_counters(v)) return;
    const struct counter_row *r = rows_counters_of(v, kernel);
    percent(t, rows_counter(r, COUNTER_SM));
    percent(t, rows_counter(r, COUNTER_TENSOR));
    percent(t, rows_counter(r, COUNTER_DRAM_READ));
    percent(t, rows_counter(r, COUNTER_DRAM_WRITE));
    table_cell(t, "%s", text_num(r ? r->dram_bytes_per_s * 1e-9 : NAN, 0).s);
    percent(t, rows_counter(r, COUNTER_OCCUPANCY));
    table_cell(t, "%s", text_num(rows_counter(r, COUNTER_CLOCK) * 1e-9, 2).s);
    percent(t, r ? r->roof_pct : NAN);
    table_cell(t, "%s", text_or_dash(rows_counter_bound(r)));
    table_cell(t, "%s",
               text_or_dash(r && r->quality != COUNTER_UNKNOWN ? counter_quality_name(r->quality) : NULL));
}

void rows_counter_heads_csv(const struct view *v, struct table *t) {
    if (!rows_have_counters(v)) return;
    for (int s = 0; s < COUNTER_SLOTS; s++)
        table_column(t, counter_slot_name((enum counter_slot)s), TABLE_RIGHT);
    table_column(t, "dram_pct", TABLE_RIGHT);
    table_column(t, "dram_byte_per_s", TABLE_RIGHT);
    table_column(t, "roof_pct", TABLE_RIGHT);
    table_column(t, "bound", TABLE_LEFT);
    table_column(t, "counter_quality", TABLE_LEFT);
    table_column(t, "counter_exposure_ns", TABLE_RIGHT);
}

void rows_counter_cells_csv(const struct view *v, uint32_t kernel, struct table *t) {
    if (!rows_have_counters(v)) return;
    const struct counter_row *r = rows_counters_of(v, kernel);
    const char *bound = rows_counter_bound(r);
    for (int s = 0; s < COUNTER_SLOTS; s++)
        table_cell(t, "%s", text_raw(rows_counter(r, (enum counter_slot)s)).s);
    table_cell(t, "%s", text_raw(r ? r->dram_pct : NAN).s);
    table_cell(t, "%s", text_raw(r ? r->dram_bytes_per_s : NAN).s);
    table_cell(t, "%s", text_raw(r ? r->roof_pct : NAN).s);
    table_cell(t, "%s", bound ? bound : "");
    table_cell(t, "%s", r ? counter_quality_name(r->quality) : "");
    table_cell(t, "%s", text_raw(r ? r->exposure_ns : NAN).s);
}

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
