/* Steps in which nothing happened. After its last step, torch.profiler opens an annotation for one more, and
 * recording ends in it. A first or last step of a thread that launches nothing and has no work on a device is
 * no step, if other steps of the thread have work: it is removed. Its time is between steps. */
#include <stdlib.h>

#include "analyze/internal.h"
#include "analyze/step_devices.h"
#include "base/die.h"
#include "base/util.h"

static void mark(bool *has_work, uint32_t occurrence) {
    if (occurrence != ANALYSIS_NONE) has_work[occurrence] = true;
}

/* Returns one flag per occurrence: it, or one inside it, launched or runs something. */
static bool *find_work(const struct context *c) {
    const struct timeline *tl = c->tl;
    const struct timeline_launches *l = &tl->launches;
    bool *has_work = xcalloc(c->a->noccurrences + 1, sizeof *has_work);
    for (size_t i = 0; i < l->n; i++)
        if (l->api_kind[i] == TIMELINE_API_KERNEL || l->api_kind[i] == TIMELINE_API_GRAPH)
            mark(has_work, c->launch_occurrence[i]);
    for (size_t i = 0; i < tl->kernels.n; i++) mark(has_work, c->kernel_occurrence[i]);
    for (uint32_t i = 0; i < tl->copies.n; i++)
        mark(has_work, occurrence_of_work(c, &(struct work){ .index = i }));
    for (size_t i = c->a->noccurrences; i-- > 0;) /* parents come before their children */
        if (has_work[i]) mark(has_work, c->a->occurrences[i].parent);
    return has_work;
}

/* Returns true if everything that the step launched was recorded. */
static bool is_recorded(const struct context *c, const struct analysis_occurrence *o) {
    uint64_t until_ns;
    return o->parent == ANALYSIS_NONE && o->process != TIMELINE_NONE &&
           c->tl->processes[o->process].has_launches &&
           captured_until(c->tl, o->process, o->start_ns, &until_ns) && until_ns >= o->end_ns;
}

static void drop(const struct context *c, const struct step_key *k, const bool *has_work, bool *dropped) {
    if (!has_work[k->occurrence] && is_recorded(c, &c->a->occurrences[k->occurrence]))
        dropped[k->occurrence] = true;
}

/* Marks the steps to remove. Returns one flag per occurrence. */
static bool *find_dropped(const struct context *c, const bool *has_work) {
    size_t n = c->a->noccurrences;
    struct step_key *keys = steps_by_thread(c);
    bool *dropped = xcalloc(n + 1, sizeof *dropped);
    for (size_t first = 0, end; first < n; first = end) {
        bool any = false;
        for (end = first; end < n && steps_of_one_thread(&keys[end], &keys[first]); end++)
            any |= has_work[keys[end].occurrence];
        if (!any) continue;
        drop(c, &keys[first], has_work, dropped);
        drop(c, &keys[end - 1], has_work, dropped);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t parent = c->a->occurrences[i].parent;
        if (parent != ANALYSIS_NONE && dropped[parent]) dropped[i] = true;
    }
    free(keys);
    return dropped;
}

static void renumber(uint32_t *v, size_t n, const uint32_t *now) {
    for (size_t i = 0; i < n; i++)
        if (v[i] != ANALYSIS_NONE) v[i] = now[v[i]];
}

static void remove_dropped(struct context *c, const bool *dropped) {
    struct analysis *a = c->a;
    uint32_t *now = xmalloc((a->noccurrences + 1) * sizeof *now);
    size_t kept = 0;
    c->dropped_range = analysis_alloc(c, c->tl->ranges.n, sizeof *c->dropped_range);
    for (size_t i = 0; i < a->noccurrences; i++) {
        struct analysis_occurrence *o = &a->occurrences[i];
        now[i] = dropped[i] ? ANALYSIS_NONE : (uint32_t)kept;
        if (dropped[i]) {
            a->stages[o->stage].occurrences--;
            if (o->range != TIMELINE_NONE) c->dropped_range[o->range] = true;
            continue;
        }
        if (o->parent != ANALYSIS_NONE) o->parent = now[o->parent];
        a->occurrences[kept++] = *o;
    }
    a->noccurrences = kept;
    renumber(c->range_occurrence, c->tl->ranges.n, now);
    renumber(c->launch_occurrence, c->tl->launches.n, now);
    renumber(c->kernel_occurrence, c->tl->kernels.n, now);
    if (c->copy_occurrence) renumber(c->copy_occurrence, c->tl->copies.n, now);
    free(now);
}

static void note_dropped(struct context *c, const bool *dropped) {
    size_t *count = xcalloc(c->a->nstages + 1, sizeof *count);
    for (size_t i = 0; i < c->a->noccurrences; i++)
        if (dropped[i] && c->a->occurrences[i].parent == ANALYSIS_NONE) count[c->a->occurrences[i].stage]++;
    for (size_t i = 0; i < c->a->nstages; i++)
        if (count[i])
            analysis_note(c, ANALYSIS_INFO,
                          "%s: %s of %s steps, the first or last one of a thread, launch%s nothing and "
                          "%s no work on a device: the report does not count %s",
                          c->a->stages[i].path, analysis_count(c, count[i]),
                          analysis_count(c, c->a->stages[i].occurrences), count[i] == 1 ? "es" : "",
                          count[i] == 1 ? "has" : "have", count[i] == 1 ? "it" : "them");
    free(count);
}

void analysis_drop_empty_steps(struct context *c) {
    if (c->in->one_run) return; /* its figures are sums */
    bool *has_work = find_work(c), *dropped = find_dropped(c, has_work);
    note_dropped(c, dropped);
    remove_dropped(c, dropped);
    free(has_work);
    free(dropped);
}
