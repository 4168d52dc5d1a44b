#include "analyze/trace_sweep.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

struct sweep {
    const struct sweep_range *ranges;
    struct trace_stats_op *rows;
    uint32_t *marks; /* by row: the last launch that counted for it */
    struct {
        uint32_t *v;
        size_t n, cap;
    } stack; /* indices of ranges, outermost first */
};

/* Longer first where two start together: the longer is the parent. */
static int by_thread_start(const void *pa, const void *pb) {
    const struct sweep_range *a = pa, *b = pb;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    if (a->end_ns != b->end_ns) return a->end_ns > b->end_ns ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

static int by_thread_time(const void *pa, const void *pb) {
    const struct sweep_launch *a = pa, *b = pb;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    return (a->at_ns > b->at_ns) - (a->at_ns < b->at_ns);
}

static void pop_ended(struct sweep *s, uint32_t thread, uint64_t now) {
    while (s->stack.n) {
        const struct sweep_range *top = &s->ranges[s->stack.v[s->stack.n - 1]];
        if (top->thread == thread && top->end_ns > now) return;
        s->stack.n--;
    }
}

static void enter(struct sweep *s, uint32_t index) {
    const struct sweep_range *r = &s->ranges[index];
    struct trace_stats_op *row = &s->rows[r->name];
    uint64_t duration = r->end_ns - r->start_ns;
    pop_ended(s, r->thread, r->start_ns);
    row->calls++;
    row->total_ns += duration;
    row->self_ns += duration;
    if (s->stack.n) { /* what reaches beyond the parent is not the parent's to lose */
        const struct sweep_range *parent = &s->ranges[s->stack.v[s->stack.n - 1]];
        s->rows[parent->name].self_ns -= MIN(r->end_ns, parent->end_ns) - r->start_ns;
    }
    vec_push(&s->stack, index);
}

static void launch(struct sweep *s, const struct sweep_launch *l, uint32_t mark) {
    pop_ended(s, l->thread, l->at_ns);
    if (!s->stack.n) return;
    s->rows[s->ranges[s->stack.v[s->stack.n - 1]].name].self_device_ns += l->device_ns;
    for (size_t i = 0; i < s->stack.n; i++) {
        const struct sweep_range *r = &s->ranges[s->stack.v[i]];
        if (r->end_ns <= l->at_ns || s->marks[r->name] == mark) continue;
        s->marks[r->name] = mark;
        s->rows[r->name].device_ns += l->device_ns;
    }
}

void trace_sweep(struct sweep_range *ranges, size_t nranges, struct sweep_launch *launches, size_t nlaunches,
                 struct trace_stats_op *rows, size_t nrows) {
    sort_if_any(ranges, nranges, sizeof *ranges, by_thread_start);
    sort_if_any(launches, nlaunches, sizeof *launches, by_thread_time);
    struct sweep s = { .ranges = ranges, .rows = rows, .marks = xcalloc(nrows ? nrows : 1, sizeof *s.marks) };
    size_t r = 0, l = 0;
    while (r < nranges || l < nlaunches) {
        bool range_first = l == nlaunches;
        if (r < nranges && l < nlaunches)
            range_first = ranges[r].thread != launches[l].thread ? ranges[r].thread < launches[l].thread
                                                                 : ranges[r].start_ns <= launches[l].at_ns;
        if (range_first)
            enter(&s, (uint32_t)r++);
        else {
            launch(&s, &launches[l], (uint32_t)l + 1);
            l++;
        }
    }
    free(s.stack.v);
    free(s.marks);
}
