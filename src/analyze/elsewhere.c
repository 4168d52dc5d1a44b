#include "analyze/elsewhere.h"

#include <stdlib.h>

#include "analyze/work_walk.h"
#include "base/die.h"
#include "base/util.h"

/* The work of another device. `next` is the first work that starts at or after the last time. */
struct cursor {
    struct work_walk walk;
    struct work next;
    bool has_next;
};

struct elsewhere {
    const struct timeline *tl;
    uint32_t device;
    struct cursor *cursors; /* [ndevices]; NULL: not needed yet */
    uint64_t *end_ns;       /* [nprocesses]: latest end of the work so far */
};

struct elsewhere *elsewhere_open(const struct context *c, uint32_t device) {
    struct elsewhere *e = xcalloc(1, sizeof *e);
    *e = (struct elsewhere){ .tl = c->tl, .device = device };
    return e;
}

void elsewhere_close(struct elsewhere *e) {
    free(e->cursors);
    free(e->end_ns);
    free(e);
}

static void start(struct elsewhere *e) {
    e->cursors = xcalloc(e->tl->ndevices + 1, sizeof *e->cursors);
    e->end_ns = xcalloc(e->tl->nprocesses + 1, sizeof *e->end_ns);
    for (uint32_t d = 0; d < e->tl->ndevices; d++) {
        struct cursor *k = &e->cursors[d];
        if (d == e->device || e->tl->devices[d].is_cpu) continue;
        k->walk = work_walk_device(e->tl, d);
        k->has_next = work_walk_next(&k->walk, &k->next);
    }
}

static uint32_t process_of(const struct timeline *tl, const struct work *w) {
    uint32_t launch = work_launch(tl, w);
    return launch == TIMELINE_NONE ? tl->lanes[w->lane].process
                                   : tl->threads[tl->launches.thread[launch]].process;
}

uint64_t elsewhere_busy_until(struct elsewhere *e, uint32_t process, uint64_t time_ns) {
    if (e->tl->ndevices < 2) return 0;
    if (!e->cursors) start(e);
    for (uint32_t d = 0; d < e->tl->ndevices; d++) {
        struct cursor *k = &e->cursors[d];
        for (; k->has_next && k->next.start_ns < time_ns; k->has_next = work_walk_next(&k->walk, &k->next)) {
            uint64_t *end_ns = &e->end_ns[process_of(e->tl, &k->next)];
            *end_ns = MAX(*end_ns, k->next.end_ns);
        }
    }
    return MIN(e->end_ns[process], time_ns);
}
