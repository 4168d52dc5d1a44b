/* What Nsight Compute measured, as columns of the kernel tables; they are there only where a profile met a
 * kernel. */
#include <math.h>
#include <stdio.h>

#include "base/util.h"
#include "report/rows.h"
#include "report/text.h"

#define NAMED_MAX 5 /* profiled kernels that are not in the run, in words */

bool rows_have_profiles(const struct view *v) {
    return v->a && v->a->profiles && v->a->profiles->unmatched < v->a->profiles->n;
}

double rows_profile(const struct kernel_profile *p, enum kernel_profile_metric m) {
    return p ? p->value[m] : NAN;
}

static const struct {
    const char *head;
    enum kernel_profile_metric metric;
} percents[] = { { "ncu SM", KERNEL_PROFILE_SM },         { "ncu memory", KERNEL_PROFILE_MEMORY },
                 { "ncu DRAM", KERNEL_PROFILE_DRAM },     { "ncu occupancy", KERNEL_PROFILE_OCCUPANCY },
                 { "ncu L1 hit", KERNEL_PROFILE_L1_HIT }, { "ncu L2 hit", KERNEL_PROFILE_L2_HIT } };

void rows_profile_heads(const struct view *v, struct table *t) {
    if (!rows_have_profiles(v)) return;
    table_column(t, "ncu us", TABLE_RIGHT);
    for (size_t i = 0; i < COUNTOF(percents); i++) table_column(t, percents[i].head, TABLE_RIGHT);
    table_column(t, "ncu stall", TABLE_LEFT);
    table_column(t, "ncu bound", TABLE_LEFT);
}

void rows_profile_cells(const struct view *v, uint32_t kernel, struct table *t) {
    if (!rows_have_profiles(v)) return;
    const struct kernel_profile *p = kernel_profile_of(v->a, kernel);
    double stall = rows_profile(p, KERNEL_PROFILE_STALL);
    table_cell(t, "%s", text_us_number(rows_profile(p, KERNEL_PROFILE_DURATION)).s);
    for (size_t i = 0; i < COUNTOF(percents); i++)
        table_cell(t, "%s", text_percent(rows_profile(p, percents[i].metric) / 100).s);
    if (p && p->stall && isfinite(stall))
        table_cell(t, "%s %s", p->stall, text_percent(stall / 100).s);
    else
        table_cell(t, "%s", text_or_dash(p ? p->stall : NULL));
    table_cell(t, "%s", text_or_dash(p ? p->bound : NULL));
}

void rows_profile_heads_csv(const struct view *v, struct table *t) {
    char head[64];
    if (!rows_have_profiles(v)) return;
    for (int m = 0; m < KERNEL_PROFILE_METRIC_END; m++) {
        snprintf(head, sizeof head, "ncu_%s", kernel_profile_key((enum kernel_profile_metric)m));
        table_column(t, head, TABLE_RIGHT);
    }
    table_column(t, "ncu_stall", TABLE_LEFT);
    table_column(t, "ncu_bound", TABLE_LEFT);
    table_column(t, "ncu_launches", TABLE_RIGHT);
}

void rows_profile_cells_csv(const struct view *v, uint32_t kernel, struct table *t) {
    if (!rows_have_profiles(v)) return;
    const struct kernel_profile *p = kernel_profile_of(v->a, kernel);
    for (int m = 0; m < KERNEL_PROFILE_METRIC_END; m++)
        table_cell(t, "%s", text_raw(rows_profile(p, (enum kernel_profile_metric)m)).s);
    table_cell(t, "%s", p && p->stall ? p->stall : "");
    table_cell(t, "%s", p && p->bound ? p->bound : "");
    table_cell(t, "%s", text_raw(p && p->launches ? (double)p->launches : NAN).s);
}

void rows_profiles_note(const struct analysis *a, struct strbuf *out) {
    const struct analysis_profiles *p = a ? a->profiles : NULL;
    size_t named = 0;
    if (!p) return;
    strbuf_addf(out,
                "Nsight Compute profiled %zu kinds of kernels; %zu of them are in this run and own %s of its "
                "busy time. Its SM and memory are the throughput of the busiest unit, not the time in which "
                "there was work.",
                p->n, p->n - p->unmatched, text_percent(p->covered_share).s);
    for (size_t i = 0; i < p->n && named < NAMED_MAX; i++) {
        if (p->matches[i] != KERNEL_PROFILE_NO_MATCH) continue;
        struct kernel_name kn;
        kernel_name_parse(&kn, p->profiles[i].name);
        strbuf_addf(out, "%s%s", named++ ? ", " : " Not in it (by name, grid and block): ", kn.short_name);
        kernel_name_free(&kn);
    }
    if (named < p->unmatched) strbuf_addf(out, " and %zu more", p->unmatched - named);
    if (named) strbuf_addch(out, '.');
}
