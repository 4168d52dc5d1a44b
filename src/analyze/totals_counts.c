/* Events and problems by kind. Importers count the events of their source by the source's own kinds and store
 * the counts in the trace. In our own traces, the records are counted. */
#include <stdlib.h>
#include <string.h>

#include "analyze/totals_internal.h"
#include "base/die.h"

static bool is_imported(const struct timeline *tl, uint32_t process) {
    return strncmp(timeline_text(tl, tl->processes[process].source), "import:", 7) == 0;
}

static void count_imported(struct sums *s, const struct timeline *tl) {
    static const char events[] = "import.events.", problems[] = "import.problem.";
    for (size_t i = 0; i < tl->nmeta; i++) {
        const char *key = timeline_text(tl, tl->meta[i].key);
        uint64_t n = strtoull(timeline_text(tl, tl->meta[i].value), NULL, 10);
        if (strncmp(key, events, sizeof events - 1) == 0) sums_add_event(s, key + sizeof events - 1, n);
        if (strncmp(key, problems, sizeof problems - 1) == 0)
            sums_add_problem(s, key + sizeof problems - 1, n);
    }
}

static void count_copies(struct sums *s, const struct timeline *tl) {
    uint64_t memcpys = 0, memsets = 0;
    for (size_t i = 0; i < tl->copies.n; i++)
        if (!is_imported(tl, tl->lanes[tl->copies.lane[i]].process))
            *(tl->copies.kind[i] == TRACE_COPY_MEMSET ? &memsets : &memcpys) += 1;
    sums_add_event(s, "memcpy", memcpys);
    sums_add_event(s, "memset", memsets);
}

/* Returns the number of counted ranges. */
static uint64_t count_ranges(struct sums *s, const struct timeline *tl) {
    uint64_t n[TOTALS_RANGE_ANNOTATION + 1] = { 0 };
    for (size_t i = 0; i < tl->ranges.n; i++)
        if (!is_imported(tl, tl->threads[tl->ranges.thread[i]].process)) n[totals_range_kind(tl, i)]++;
    sums_add_event(s, "instant", n[TOTALS_RANGE_MARK]);
    sums_add_event(s, "cpu_op", n[TOTALS_RANGE_OPERATOR]);
    sums_add_event(s, "user_annotation", n[TOTALS_RANGE_ANNOTATION]);
    return n[TOTALS_RANGE_MARK] + n[TOTALS_RANGE_OPERATOR] + n[TOTALS_RANGE_ANNOTATION];
}

static void count_own(struct sums *s, const struct timeline *tl) {
    uint64_t records[TRACE_KIND_END] = { 0 };
    for (uint32_t p = 0; p < tl->nprocesses; p++)
        for (unsigned kind = 0; kind < TRACE_KIND_END && !is_imported(tl, p); kind++)
            records[kind] += tl->processes[p].records[kind];
    sums_add_event(s, "kernel", records[TRACE_KERNEL]);
    sums_add_event(s, "runtime", records[TRACE_LAUNCH]);
    sums_add_event(s, "range", records[TRACE_RANGE] - count_ranges(s, tl));
    count_copies(s, tl);
    for (unsigned kind = TRACE_SYNC; kind < TRACE_LOST; kind++)
        sums_add_event(s, trace_kind_name(kind), records[kind]);
}

static uint64_t work_without_launch(const struct timeline *tl) {
    uint64_t n = 0;
    for (size_t i = 0; i < tl->kernels.n; i++) n += tl->kernels.launch[i] == TIMELINE_NONE;
    for (size_t i = 0; i < tl->copies.n; i++) n += tl->copies.launch[i] == TIMELINE_NONE;
    return n;
}

static void count_problems(struct sums *s, const struct timeline *tl) {
    for (size_t i = 0; i < tl->nprocesses; i++) {
        const struct timeline_process *p = &tl->processes[i];
        sums_add_problem(s, "duplicate_correlation", p->repeated_correlations);
        sums_add_problem(s, "damaged_chunks", p->damaged_chunks);
        sums_add_problem(s, "damaged_places", p->damaged_places);
        sums_add_problem(s, "unfinished_trace", !p->finished);
    }
    for (unsigned kind = 0; kind < TRACE_KIND_END; kind++)
        sums_add_problem(s, "lost_records", tl->lost[kind]);
    sums_add_problem(s, "end_before_start", tl->bad_records);
    sums_add_problem(s, "far_from_the_rest", tl->stray_records);
    sums_add_problem(s, "no_launch", work_without_launch(tl));
}

void totals_counts(struct analysis_totals *t, const struct analysis *a) {
    count_imported(&t->sums, a->timeline);
    count_own(&t->sums, a->timeline);
    count_problems(&t->sums, a->timeline);
}
