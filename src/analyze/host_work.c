/* Names what the host does while a device has no work: the CUDA call that it is in, or the innermost range
 * that covers most of the time. */
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

#define PERIODS_MAX 65536 /* further periods are not named */

void host_work_add(struct context *c, const struct quiet_period *period) {
    if (period->to_ns < period->from_ns + IDLE_QUIET_NS || c->quiet.n >= PERIODS_MAX) return;
    vec_push(&c->quiet, *period);
}

static bool belongs_to(const struct context *c, uint32_t occurrence, uint32_t stage) {
    if (occurrence == ANALYSIS_NONE) return stage == c->outside;
    for (uint32_t o = occurrence; o != ANALYSIS_NONE; o = c->a->occurrences[o].parent)
        if (c->a->occurrences[o].stage == stage) return true;
    return false;
}

static bool covers_most(const struct timeline *tl, uint32_t range, const struct quiet_period *q) {
    uint64_t from = MAX(tl->ranges.start_ns[range], q->from_ns), to = MIN(tl->ranges.end_ns[range], q->to_ns);
    return to > from && 2 * (to - from) > q->to_ns - q->from_ns;
}

/* The name of a step does not say what the host does in it. */
static bool is_step(const struct context *c, uint32_t range) {
    uint32_t o = c->range_occurrence[range];
    return o != ANALYSIS_NONE && c->a->occurrences[o].range == range;
}

/* `last` is the range of the thread that started last before the middle of the period. */
static uint32_t range_around(const struct context *c, uint32_t last, const struct quiet_period *q) {
    uint32_t r = last;
    for (int i = 0; r != TIMELINE_NONE && i < TIMELINE_MAX_AROUND; i++, r = c->tl->ranges.parent[r])
        if (covers_most(c->tl, r, q)) return is_step(c, r) ? TIMELINE_NONE : r;
    return TIMELINE_NONE;
}

static bool in_data_loader(const struct timeline *tl, uint32_t range) {
    uint32_t r = range;
    for (int i = 0; r != TIMELINE_NONE && i < TIMELINE_MAX_AROUND; i++, r = tl->ranges.parent[r]) {
        const char *name = timeline_text(tl, tl->ranges.name[r]);
        if (strstr(name, "DataLoader") || strstr(name, "dataloader")) return true;
    }
    return false;
}

static uint64_t middle_ns(const struct quiet_period *q) { return q->from_ns + (q->to_ns - q->from_ns) / 2; }

static int by_middle(const void *pa, const void *pb) {
    uint64_t a = middle_ns(pa), b = middle_ns(pb);
    return (a > b) - (a < b);
}

/* One pass over ranges and periods, in order of time. */
void host_work_find_ranges(struct context *c) {
    const struct timeline_ranges *r = &c->tl->ranges;
    if (!c->quiet.n) return;
    uint32_t *last = xmalloc((c->tl->nthreads + 1) * sizeof *last);
    size_t next = 0;
    for (size_t i = 0; i < c->tl->nthreads; i++) last[i] = TIMELINE_NONE;
    qsort(c->quiet.v, c->quiet.n, sizeof *c->quiet.v, by_middle);
    for (size_t i = 0; i < c->quiet.n; i++) {
        struct quiet_period *q = &c->quiet.v[i];
        for (; next < r->n && r->start_ns[next] <= middle_ns(q); next++)
            if (!(r->flags[next] & TRACE_RANGE_MARK)) last[r->thread[next]] = (uint32_t)next;
        q->range = range_around(c, last[q->thread], q);
    }
    free(last);
}

/* A period of the stage, and the call or the range around it. */
struct named_period {
    uint32_t name; /* text */
    const struct quiet_period *period;
};

static int by_name(const void *pa, const void *pb) {
    const struct named_period *a = pa, *b = pb;
    if (a->name != b->name) return a->name < b->name ? -1 : 1;
    return (a->period > b->period) - (a->period < b->period);
}

static size_t name_periods(const struct context *c, uint32_t stage, struct named_period *out) {
    size_t n = 0;
    for (size_t i = 0; i < c->quiet.n; i++) {
        const struct quiet_period *q = &c->quiet.v[i];
        if (!belongs_to(c, q->occurrence, stage) || (!q->call && q->range == TIMELINE_NONE)) continue;
        out[n++] = (struct named_period){ q->call ? q->call : c->tl->ranges.name[q->range], q };
    }
    return n;
}

struct host_work host_work_longest(struct context *c, uint32_t stage) {
    struct host_work best = { 0 };
    if (!c->quiet.n) return best;
    struct named_period *v = xcalloc(c->quiet.n, sizeof *v);
    size_t n = name_periods(c, stage, v);
    qsort(v, n, sizeof *v, by_name);
    for (size_t i = 0, end; i < n; i = end) {
        double ns = 0;
        for (end = i; end < n && v[end].name == v[i].name; end++)
            ns += (double)(v[end].period->to_ns - v[end].period->from_ns);
        if (ns <= best.ns) continue;
        const struct quiet_period *q = v[i].period;
        best = (struct host_work){ timeline_text(c->tl, v[i].name), ns, q->call != 0,
                                   !q->call && in_data_loader(c->tl, q->range) };
    }
    free(v);
    return best;
}
