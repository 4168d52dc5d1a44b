/* Drops records with damaged times. One event at time 0, or one that was never closed, would turn a trace of
 * 20 ms into one of 54 years. Most records show when the trace was made: 9 of 10 start between two times. A
 * record is a stray if it is farther away from these than a day, and than 1,000 times the time between them.
 * Strays are at most a tenth of the records, so two parts of a trace with days between them stay. */
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "timeline/build.h"

#define DAY_NS (24 * 3600 * UINT64_C(1000000000))
#define FARTHEST_TIMES 1000
#define EACH_SIDE 20        /* 1 of 20 starts is before the time between, 1 of 20 after it */
#define SAMPLES_MAX 100000u /* starts that are sorted */

static const enum trace_kind kinds[] = { TRACE_KERNEL, TRACE_COPY, TRACE_LAUNCH,
                                         TRACE_RANGE,  TRACE_SYNC, TRACE_REPLAY };

/* The rows of a kind that belong to the open process. */
struct rows {
    struct columns columns;
    const uint64_t *start_ns, *end_ns;
    size_t first, n;
};

static struct rows rows_of(struct timeline_builder *b, enum trace_kind kind) {
    struct rows r = { .columns = build_columns(b, kind), .first = b->segment.first[kind] };
    r.start_ns = *r.columns.list[0].data;
    r.end_ns = *r.columns.list[1].data;
    r.n = *r.columns.n;
    return r;
}

struct span {
    uint64_t from_ns, to_ns;
};

static struct span whole_span(struct timeline_builder *b, size_t *count) {
    struct span s = { UINT64_MAX, 0 };
    *count = 0;
    for (size_t k = 0; k < COUNTOF(kinds); k++) {
        struct rows r = rows_of(b, kinds[k]);
        *count += r.n - r.first;
        for (size_t i = r.first; i < r.n; i++) {
            s.from_ns = MIN(s.from_ns, r.start_ns[i]);
            s.to_ns = MAX(s.to_ns, r.end_ns[i]);
        }
    }
    return s;
}

static int by_time(const void *pa, const void *pb) {
    uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    return (a > b) - (a < b);
}

/* Returns the time in which a record can be. */
static struct span possible_span(struct timeline_builder *b, size_t count) {
    size_t step = count / SAMPLES_MAX + 1, n = 0, seen = 0;
    uint64_t *starts = xmalloc((count / step + 1) * sizeof *starts);
    for (size_t k = 0; k < COUNTOF(kinds); k++) {
        struct rows r = rows_of(b, kinds[k]);
        for (size_t i = r.first; i < r.n; i++)
            if (seen++ % step == 0) starts[n++] = r.start_ns[i];
    }
    qsort(starts, n, sizeof *starts, by_time);
    uint64_t first = starts[n / EACH_SIDE], last = starts[n - 1 - n / EACH_SIDE], far;
    free(starts);
    if (__builtin_mul_overflow(last - first, FARTHEST_TIMES, &far)) far = UINT64_MAX;
    far = MAX(far, DAY_NS);
    return (struct span){ first > far ? first - far : 0, last < UINT64_MAX - far ? last + far : UINT64_MAX };
}

static size_t drop_outside(struct rows *r, struct span possible) {
    uint32_t *kept = xmalloc((r->n + 1) * sizeof *kept);
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        if (i < r->first || (r->start_ns[i] >= possible.from_ns && r->end_ns[i] <= possible.to_ns))
            kept[n++] = (uint32_t)i;
    *r->columns.n = n;
    if (n < r->n) columns_permute(&r->columns, kept);
    free(kept);
    return r->n - n;
}

void build_drop_strays(struct timeline_builder *b) {
    size_t count, dropped = 0;
    struct span whole = whole_span(b, &count);
    if (!count || whole.to_ns - whole.from_ns <= DAY_NS) return;
    struct span possible = possible_span(b, count);
    if (whole.from_ns >= possible.from_ns && whole.to_ns <= possible.to_ns) return;
    for (size_t k = 0; k < COUNTOF(kinds); k++) {
        struct rows r = rows_of(b, kinds[k]);
        dropped += drop_outside(&r, possible);
    }
    b->tl.stray_records += dropped;
    timeline_builder_warning(
        b, "%s: not used: %zu record%s with a damaged time, over a day away from the others",
        intern_text(b->texts, b->processes.v[b->processes.n - 1].path), dropped, dropped == 1 ? "" : "s");
}
