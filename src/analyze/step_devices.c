#include "analyze/step_devices.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/end_heap.h"
#include "base/die.h"
#include "base/util.h"

enum { NOTHING, COPIES, KERNELS }; /* what steps do on a device */

/* The open steps of all stages of one depth. A step does not overlap its own sub-steps, so only steps of the
 * same depth are counted together. */
struct level {
    size_t open;
    double sum_ns; /* number of open steps, integrated over time until at_ns */
    uint64_t at_ns;
};
struct open_stage {
    size_t open;
    double sum_ns; /* of its level when the first of its open steps began */
    uint64_t from_ns;
};

struct step_devices {
    const struct context *c;
    uint32_t *group;                /* [noccurrences]: one number per stage and thread */
    uint8_t *work;                  /* [noccurrences]: of each step on the current device */
    uint8_t *most, *here;           /* [groups]: of any step, on any device and on the current one */
    bool *stage_is_at_home;         /* [nstages]: a group does here the most that it does */
    struct end_heap open;           /* open steps; id: the occurrence */
    struct level *levels;           /* [nstages]: by depth of the stage */
    struct open_stage *open_stages; /* [nstages] */
    size_t ngroups;
};

uint32_t occurrence_of_work(const struct context *c, const struct work *w) {
    uint32_t launch = work_launch(c->tl, w), range = work_range(c->tl, w);
    if (w->is_kernel) return c->kernel_occurrence[w->index];
    if (c->a->stages[0].implicit) return 0;
    if (c->copy_occurrence) return c->copy_occurrence[w->index];
    if (launch != TIMELINE_NONE) return c->launch_occurrence[launch];
    return range == TIMELINE_NONE ? ANALYSIS_NONE : c->range_occurrence[range];
}

/* ---- groups */

static int by_stage_and_thread(const void *pa, const void *pb) {
    const struct step_key *a = pa, *b = pb;
    if (a->stage != b->stage) return a->stage < b->stage ? -1 : 1;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    return (a->occurrence > b->occurrence) - (a->occurrence < b->occurrence);
}

struct step_key *steps_by_thread(const struct context *c) {
    size_t n = c->a->noccurrences;
    struct step_key *keys = xmalloc((n + 1) * sizeof *keys);
    for (uint32_t i = 0; i < n; i++)
        keys[i] = (struct step_key){ c->a->occurrences[i].stage, c->a->occurrences[i].thread, i };
    qsort(keys, n, sizeof *keys, by_stage_and_thread);
    return keys;
}

bool steps_of_one_thread(const struct step_key *a, const struct step_key *b) {
    return a->stage == b->stage && a->thread == b->thread;
}

static void find_groups(struct step_devices *s) {
    size_t n = s->c->a->noccurrences;
    struct step_key *keys = steps_by_thread(s->c);
    for (size_t i = 0; i < n; i++) {
        if (!i || !steps_of_one_thread(&keys[i - 1], &keys[i])) s->ngroups++;
        s->group[keys[i].occurrence] = (uint32_t)(s->ngroups - 1);
    }
    free(keys);
}

/* Raises of_group[] to what the steps of each group do on the device. */
static void raise_to_work(struct step_devices *s, uint32_t device, uint8_t *of_group) {
    const struct analysis *a = s->c->a;
    const struct timeline_device *d = &s->c->tl->devices[device];
    struct work_walk walk = work_walk_device(s->c->tl, device);
    if (!d->kernel_count && !d->copy_count) return;
    memset(s->work, NOTHING, a->noccurrences);
    for (struct work w; work_walk_next(&walk, &w);) {
        uint32_t o = occurrence_of_work(s->c, &w);
        uint8_t work = w.is_kernel ? KERNELS : COPIES;
        if (o != ANALYSIS_NONE) s->work[o] = MAX(s->work[o], work);
    }
    for (size_t i = a->noccurrences; i-- > 0;) { /* parents come before their children */
        uint32_t parent = a->occurrences[i].parent, g = s->group[i];
        if (parent != ANALYSIS_NONE) s->work[parent] = MAX(s->work[parent], s->work[i]);
        of_group[g] = MAX(of_group[g], s->work[i]);
    }
}

struct step_devices *step_devices_make(const struct context *c) {
    struct step_devices *s = xcalloc(1, sizeof *s);
    size_t n = c->a->noccurrences + 1;
    *s = (struct step_devices){ .c = c,
                                .group = xcalloc(n, sizeof *s->group),
                                .work = xcalloc(n, 1),
                                .most = xcalloc(n, 1),
                                .here = xcalloc(n, 1),
                                .stage_is_at_home = xcalloc(c->a->nstages + 1, 1),
                                .levels = xcalloc(c->a->nstages + 1, sizeof *s->levels),
                                .open_stages = xcalloc(c->a->nstages + 1, sizeof *s->open_stages) };
    find_groups(s);
    for (uint32_t d = 0; d < c->tl->ndevices; d++) raise_to_work(s, d, s->most);
    return s;
}

void step_devices_free(struct step_devices *s) {
    free(s->group);
    free(s->work);
    free(s->most);
    free(s->here);
    free(s->stage_is_at_home);
    free(s->open.v);
    free(s->levels);
    free(s->open_stages);
    free(s);
}

/* ---- one device */

static void find_homes(struct step_devices *s, uint32_t device) {
    const struct analysis *a = s->c->a;
    memset(s->here, NOTHING, s->ngroups);
    memset(s->stage_is_at_home, false, a->nstages);
    raise_to_work(s, device, s->here);
    for (size_t i = 0; i < a->noccurrences; i++) {
        uint32_t g = s->group[i];
        if (s->here[g] && s->here[g] == s->most[g]) s->stage_is_at_home[a->occurrences[i].stage] = true;
    }
}

static bool counts_on(const struct step_devices *s, size_t occurrence, uint32_t device, const bool *uses) {
    const struct analysis_occurrence *o = &s->c->a->occurrences[occurrence];
    uint32_t g = s->group[occurrence];
    if (o->device != TIMELINE_NONE) return o->device == device;
    if (o->process != TIMELINE_NONE && !uses[o->process]) return false;
    return s->here[g] == s->most[g] || !s->stage_is_at_home[o->stage];
}

/* ---- steps that are open at once */

/* Opens or closes a step. Times must not decrease. */
static void change_open(struct step_devices *s, uint32_t device, uint32_t occurrence, uint64_t time_ns,
                        bool opens) {
    const struct analysis *a = s->c->a;
    uint32_t stage = a->occurrences[occurrence].stage;
    struct analysis_stage_device *row = &a->stage_devices[(size_t)stage * a->ndevices + device];
    struct level *l = &s->levels[a->stages[stage].depth];
    struct open_stage *o = &s->open_stages[stage];
    l->sum_ns += (double)l->open * (double)(time_ns - l->at_ns);
    l->at_ns = time_ns;
    if (opens) {
        if (!o->open++) *o = (struct open_stage){ 1, l->sum_ns, time_ns };
        l->open++;
        return;
    }
    l->open--;
    if (--o->open) return;
    row->open_ns += l->sum_ns - o->sum_ns;
    row->any_open_ns += (double)(time_ns - o->from_ns);
}

static void close_until(struct step_devices *s, uint32_t device, uint64_t time_ns) {
    while (s->open.n && s->open.v[0].end_ns <= time_ns) {
        struct running r = end_heap_pop(&s->open);
        change_open(s, device, r.id, r.end_ns, false);
    }
}

void step_devices_count(struct step_devices *s, uint32_t device, const bool *uses) {
    const struct analysis *a = s->c->a;
    find_homes(s, device);
    memset(s->levels, 0, a->nstages * sizeof *s->levels);
    for (uint32_t i = 0; i < a->noccurrences; i++) { /* sorted by start */
        const struct analysis_occurrence *o = &a->occurrences[i];
        if (!counts_on(s, i, device, uses)) continue;
        a->stage_devices[(size_t)o->stage * a->ndevices + device].steps++;
        if (o->range == TIMELINE_NONE || s->here[s->group[i]] == NOTHING || o->end_ns <= o->start_ns)
            continue;
        close_until(s, device, o->start_ns);
        change_open(s, device, i, o->start_ns, true);
        end_heap_push(&s->open, (struct running){ .end_ns = o->end_ns, .id = i });
    }
    close_until(s, device, UINT64_MAX);
}
