#include "analyze/open_stage.h"

#include <stdlib.h>

#include "analyze/end_heap.h"
#include "base/die.h"
#include "base/vec.h"

/* `occurrence` is open from time_ns to the time_ns of the next element. */
struct open_step {
    uint64_t time_ns;
    uint32_t occurrence; /* ANALYSIS_NONE: none */
};
struct open_list {
    struct open_step *v;
    size_t n, cap;
};
struct open_stages {
    struct open_list *threads;   /* [nthreads] */
    struct open_list *processes; /* [nprocesses] */
    size_t nthreads, nprocesses;
    bool implicit; /* the whole trace is one stage: occurrence 0 is open everywhere */
};

/* Sweep over the occurrences of one thread or process, in order of time. */
struct sweep {
    const struct analysis_occurrence *occurrences;
    struct open_list *out;
    bool only; /* while several occurrences are open, none of them is used */
    struct {   /* in order of start; one that has ended is removed once it is the last */
        uint32_t *v;
        size_t n, cap;
    } started;
    struct end_heap open;
};

static void add_step(struct sweep *s, uint64_t time_ns) {
    while (s->started.n && s->occurrences[s->started.v[s->started.n - 1]].end_ns <= time_ns) s->started.n--;
    uint32_t o = s->started.n ? s->started.v[s->started.n - 1] : ANALYSIS_NONE;
    if (s->only && s->open.n > 1) o = ANALYSIS_NONE;
    if (s->out->n && s->out->v[s->out->n - 1].time_ns == time_ns)
        s->out->v[s->out->n - 1].occurrence = o;
    else
        vec_push(s->out, ((struct open_step){ time_ns, o }));
}

/* Closes the occurrences that have ended by `time_ns`, in order of their end. */
static void close_until(struct sweep *s, uint64_t time_ns) {
    while (s->open.n && s->open.v[0].end_ns <= time_ns) {
        uint64_t first = end_heap_pop(&s->open).end_ns;
        while (s->open.n && s->open.v[0].end_ns == first) end_heap_pop(&s->open);
        add_step(s, first);
    }
}

static void close_all(struct sweep *s) {
    close_until(s, UINT64_MAX);
    free(s->started.v);
    free(s->open.v);
}

static void open_occurrence(struct sweep *s, uint32_t occurrence) {
    const struct analysis_occurrence *o = &s->occurrences[occurrence];
    close_until(s, o->start_ns);
    if (o->end_ns <= o->start_ns) return;
    vec_push(&s->started, occurrence);
    end_heap_push(&s->open, (struct running){ .end_ns = o->end_ns, .id = occurrence });
    add_step(s, o->start_ns);
}

struct open_stages *open_stages_make(const struct context *c) {
    const struct timeline *tl = c->tl;
    const struct analysis *a = c->a;
    struct open_stages *s = xcalloc(1, sizeof *s);
    *s = (struct open_stages){ .threads = xcalloc(tl->nthreads + 1, sizeof *s->threads),
                               .processes = xcalloc(tl->nprocesses + 1, sizeof *s->processes),
                               .nthreads = tl->nthreads,
                               .nprocesses = tl->nprocesses,
                               .implicit = a->noccurrences && a->stages[0].implicit };
    if (s->implicit) return s;
    struct sweep *threads = xcalloc(tl->nthreads + 1, sizeof *threads),
                 *processes = xcalloc(tl->nprocesses + 1, sizeof *processes);
    for (size_t i = 0; i < tl->nthreads; i++)
        threads[i] = (struct sweep){ .occurrences = a->occurrences, .out = &s->threads[i] };
    for (size_t i = 0; i < tl->nprocesses; i++)
        processes[i] = (struct sweep){ .occurrences = a->occurrences, .out = &s->processes[i], .only = true };
    for (uint32_t i = 0; i < a->noccurrences; i++) { /* sorted by start */
        const struct analysis_occurrence *o = &a->occurrences[i];
        if (o->thread != TIMELINE_NONE) open_occurrence(&threads[o->thread], i);
        if (o->parent == ANALYSIS_NONE) open_occurrence(&processes[o->process], i);
    }
    for (size_t i = 0; i < tl->nthreads; i++) close_all(&threads[i]);
    for (size_t i = 0; i < tl->nprocesses; i++) close_all(&processes[i]);
    free(threads);
    free(processes);
    return s;
}

void open_stages_free(struct open_stages *s) {
    for (size_t i = 0; i < s->nthreads; i++) free(s->threads[i].v);
    for (size_t i = 0; i < s->nprocesses; i++) free(s->processes[i].v);
    free(s->threads);
    free(s->processes);
    free(s);
}

uint32_t open_stage_at(const struct open_stages *s, uint32_t thread, uint32_t process, uint64_t time_ns,
                       uint64_t *until_ns) {
    *until_ns = UINT64_MAX;
    if (s->implicit) return 0;
    const struct open_list *l =
        thread != TIMELINE_NONE && s->threads[thread].n ? &s->threads[thread] : &s->processes[process];
    size_t lo = 0, hi = l->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (l->v[mid].time_ns <= time_ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < l->n) *until_ns = l->v[lo].time_ns;
    return lo ? l->v[lo - 1].occurrence : ANALYSIS_NONE;
}
