/* The note about Nsight Compute profiles. kernel_columns.c has their columns. */
#include <math.h>
#include <stdio.h>

#include "analyze/kernel_profile.h"
#include "base/text.h"
#include "base/util.h"
#include "report/rows.h"

#define NAMED_MAX 5 /* names of unmatched kernels */

void rows_profiles_note(const struct analysis *a, struct strbuf *out) {
    const struct analysis_profiles *p = a ? a->profiles : NULL;
    size_t named = 0;
    if (!p) return;
    strbuf_addf(
        out,
        "Nsight Compute profiled %zu kernels; %zu of them occur in this run and account for %s of its "
        "busy time. Its SM and memory figures are the throughput of the busiest unit, not the share "
        "of active time.",
        p->n, p->n - p->unmatched, text_percent(p->covered_share).s);
    for (size_t i = 0; i < p->n && named < NAMED_MAX; i++) {
        if (p->matches[i] != KERNEL_PROFILE_NO_MATCH) continue;
        struct kernel_name kn;
        kernel_name_parse(&kn, p->profiles[i].name);
        strbuf_addf(out, "%s%s",
                    named++ ? ", " : " Not found in this run (by name, grid and block): ", kn.short_name);
        kernel_name_free(&kn);
    }
    if (named < p->unmatched) strbuf_addf(out, " and %zu more", p->unmatched - named);
    if (named) strbuf_addch(out, '.');
}
