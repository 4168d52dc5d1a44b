/* Finds the innermost range at a time: of all ranges that are open on a thread, the range that started last.
 * Ranges and events are sorted by start, so one sweep with one stack per thread is sufficient. Ranges may
 * cross: a range that has ended stays on the stack until all ranges above it have ended. */
#include <stdlib.h>

#include "base/die.h"
#include "base/vec.h"
#include "timeline/build.h"

struct open_ranges {
    uint32_t *v;
    size_t n, cap;
};

/* One stack per thread, or per process if `by_process` is set. */
struct sweep {
    const struct timeline_builder *b;
    struct open_ranges *stacks;
    size_t nstacks, next; /* next: index of the next range to open */
    bool by_process;
};

static void sweep_start(struct sweep *s, const struct timeline_builder *b, bool by_process) {
    size_t n = by_process ? b->processes.n : b->threads.n;
    *s = (struct sweep){ .b = b, .nstacks = n, .by_process = by_process };
    s->stacks = xcalloc(n + 1, sizeof *s->stacks);
}

static void sweep_end(struct sweep *s) {
    for (size_t i = 0; i < s->nstacks; i++) free(s->stacks[i].v);
    free(s->stacks);
}

static uint32_t stack_of(const struct sweep *s, uint32_t thread) {
    return s->by_process ? s->b->process_group[s->b->threads.v[thread].process] : thread;
}

static void drop_ended(struct open_ranges *stack, const uint64_t *end_ns, uint64_t before_ns) {
    while (stack->n && end_ns[stack->v[stack->n - 1]] < before_ns) stack->n--;
}

/* Returns the innermost range on the stack that contains at least half of range i; TIMELINE_NONE: none. A
 * range that ends a little after its parent, as clocks are, is inside it; one that only begins there is not.
 */
static uint32_t range_around(const struct range_columns *r, const struct open_ranges *stack, uint32_t i) {
    uint64_t middle = r->start_ns[i] + (r->end_ns[i] - r->start_ns[i]) / 2;
    uint32_t p = stack->n ? stack->v[stack->n - 1] : TIMELINE_NONE;
    while (p != TIMELINE_NONE && r->end_ns[p] < middle) p = r->parent[p];
    return p;
}

/* Opens the next range. */
static void sweep_open(struct sweep *s, uint32_t *parent) {
    const struct range_columns *r = &s->b->ranges;
    uint32_t i = (uint32_t)s->next++;
    struct open_ranges *stack = &s->stacks[stack_of(s, r->thread[i])];
    /* Closes ranges that end where the new range starts, unless the new range is an instant. */
    uint64_t start = r->start_ns[i];
    drop_ended(stack, r->end_ns, start + (r->end_ns[i] > start));
    if (parent) parent[i] = range_around(r, stack, i);
    if (!(r->flags[i] & TRACE_RANGE_MARK)) vec_push(stack, i);
}

/* Returns the innermost range at a time; TIMELINE_NONE: none. Times must not decrease from call to call. A
 * call at the very end of a range is inside it, because with a 1 us clock short calls have no duration. */
static uint32_t sweep_at(struct sweep *s, uint32_t stack, uint64_t time_ns) {
    const struct range_columns *r = &s->b->ranges;
    while (s->next < r->n && r->start_ns[s->next] <= time_ns) sweep_open(s, NULL);
    drop_ended(&s->stacks[stack], r->end_ns, time_ns);
    return s->stacks[stack].n ? s->stacks[stack].v[s->stacks[stack].n - 1] : TIMELINE_NONE;
}

static void nest_ranges(struct timeline_builder *b) {
    struct sweep s;
    sweep_start(&s, b, false);
    while (s.next < b->ranges.n) sweep_open(&s, b->ranges.parent);
    sweep_end(&s);
}

static void nest_calls(struct timeline_builder *b) {
    struct sweep s;
    sweep_start(&s, b, false);
    for (size_t i = 0; i < b->launches.n; i++)
        b->launches.range[i] = sweep_at(&s, b->launches.thread[i], b->launches.start_ns[i]);
    sweep_end(&s);
    sweep_start(&s, b, false);
    for (size_t i = 0; i < b->syncs.n; i++)
        b->syncs.range[i] = sweep_at(&s, b->syncs.thread[i], b->syncs.start_ns[i]);
    sweep_end(&s);
}

/* Matches work of processes without launches by time only. [first, first + n) are the rows of one device,
 * sorted by start. */
static void nest_contained(const struct timeline_builder *b, const bool *has_launches,
                           const uint64_t *start_ns, const uint32_t *lane, uint32_t *range, size_t first,
                           size_t n) {
    struct sweep s;
    sweep_start(&s, b, true);
    for (size_t i = first; i < first + n; i++) {
        uint32_t group = b->process_group[b->lanes.v[lane[i]].process];
        if (!has_launches[group]) range[i] = sweep_at(&s, group, start_ns[i]);
    }
    sweep_end(&s);
}

static void nest_device_work(struct timeline_builder *b, const bool *has_launches, bool containment) {
    struct kernel_columns *k = &b->kernels;
    struct copy_columns *c = &b->copies;
    for (size_t i = 0; i < k->n; i++)
        if (k->launch[i] != TIMELINE_NONE) k->range[i] = b->launches.range[k->launch[i]];
    for (size_t i = 0; i < c->n; i++)
        if (c->launch[i] != TIMELINE_NONE) c->range[i] = b->launches.range[c->launch[i]];
    for (size_t i = 0; i < b->collectives.n; i++) {
        uint32_t launch = b->collectives.launch[i];
        if (launch != TIMELINE_NONE) b->collectives.range[i] = b->launches.range[launch];
    }
    for (size_t d = 0; containment && d < b->devices.n; d++) {
        const struct timeline_device *v = &b->devices.v[d];
        nest_contained(b, has_launches, k->start_ns, k->lane, k->range, v->first_kernel, v->kernel_count);
        nest_contained(b, has_launches, c->start_ns, c->lane, c->range, v->first_copy, v->copy_count);
    }
}

void build_nest(struct timeline_builder *b) {
    bool *has_launches = xcalloc(b->processes.n + 1, sizeof *has_launches);
    bool containment = false, contained_kernels = false;
    for (size_t i = 0; i < b->processes.n; i++)
        has_launches[b->process_group[i]] |= b->processes.v[i].has_launches;
    for (size_t i = 0; i < b->processes.n; i++) {
        containment |= !has_launches[b->process_group[i]];
        contained_kernels |= !has_launches[b->process_group[i]] && b->processes.v[i].kernels;
    }
    nest_ranges(b);
    nest_calls(b);
    nest_device_work(b, has_launches, containment);
    b->tl.containment = contained_kernels;
    free(has_launches);
}
