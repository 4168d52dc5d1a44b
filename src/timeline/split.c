/* Several processes in one file, such as the joined traces of two ranks. The importer says to which
 * process a thread belongs ("thread.N.pid") if the file has calls of several. Work on a device does not
 * name its process, and the correlation ids of two processes may be equal. So the work of a stream belongs
 * to the process most of whose calls have its ids and began before it. If two processes have almost
 * equally many, it is the one that already has the device, else one that has no device yet, else the one
 * that called first. Streams are assigned in the order of their first work. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "timeline/build.h"

#define OWNERS_MAX 128 /* a file with more processes stays one process */
#define ALMOST 0.9     /* part of the most votes with which another process may be the owner */

/* Returns the row of the pid, which is added if it is new; TIMELINE_NONE: too many. */
static uint32_t owner_of_pid(struct build_owners *o, uint32_t pid) {
    for (uint32_t i = 0; i < o->n; i++)
        if (o->pids[i] == pid) return i;
    if (o->n == OWNERS_MAX) return TIMELINE_NONE;
    o->pids[o->n] = pid;
    return o->n++;
}

static uint32_t *all_unknown(size_t n) {
    uint32_t *v = xmalloc((n + 1) * sizeof *v);
    memset(v, 0xff, (n + 1) * sizeof *v);
    return v;
}

bool build_owners_open(struct build_owners *o, struct timeline_builder *b) {
    uint32_t process = (uint32_t)b->processes.n - 1;
    bool too_many = false;
    *o = (struct build_owners){ .pids = xcalloc(OWNERS_MAX, sizeof *o->pids),
                                .of_thread = all_unknown(b->threads.n),
                                .of_lane = all_unknown(b->lanes.n) };
    for (size_t i = 0; i < b->threads.n; i++) {
        const struct timeline_thread *t = &b->threads.v[i];
        if (t->process != process || t->pid == TIMELINE_NONE) continue;
        o->of_thread[i] = owner_of_pid(o, t->pid);
        too_many |= o->of_thread[i] == TIMELINE_NONE;
    }
    if (too_many)
        timeline_builder_warning(
            b, "%s: calls of more than %d processes, read as one: the times of steps that overlap are wrong",
            intern_text(b->texts, b->processes.v[process].path), OWNERS_MAX);
    if (o->n < 2 || too_many) {
        build_owners_close(o);
        return false;
    }
    o->votes = xcalloc((b->lanes.n + 1) * o->n, sizeof *o->votes);
    o->first_ns = xmalloc((b->lanes.n + 1) * sizeof *o->first_ns);
    memset(o->first_ns, 0xff, (b->lanes.n + 1) * sizeof *o->first_ns);
    return true;
}

void build_owners_close(struct build_owners *o) {
    free(o->pids);
    free(o->of_thread);
    free(o->of_lane);
    free(o->votes);
    free(o->first_ns);
    *o = (struct build_owners){ 0 };
}

void build_owners_vote(struct build_owners *o, uint32_t lane, uint32_t thread, uint64_t called_ns,
                       uint64_t started_ns) {
    uint32_t owner = o->of_thread[thread];
    if (owner == TIMELINE_NONE || called_ns > started_ns) return;
    struct build_vote *v = &o->votes[(size_t)lane * o->n + owner];
    o->first_ns[lane] = MIN(o->first_ns[lane], started_ns);
    v->n++;
    v->delay_ns += (double)(started_ns - called_ns);
}

/* Returns the best owner of a lane; TIMELINE_NONE: no votes. here[], anywhere[]: owners of earlier lanes of
 * this device and of all. Calls that begin long before the work have many of the votes of the right ones, so
 * owners with almost as many votes as the first are tried in the order of `rank`. */
static uint32_t best_owner(const struct build_owners *o, size_t lane, const bool *here,
                           const bool *anywhere) {
    const struct build_vote *v = &o->votes[lane * o->n];
    uint32_t best = TIMELINE_NONE;
    size_t most = 0;
    int best_rank = 0;
    for (uint32_t i = 0; i < o->n; i++) most = MAX(most, v[i].n);
    for (uint32_t i = 0; most && i < o->n; i++) {
        int rank = here[i] ? 2 : !anywhere[i];
        if ((double)v[i].n < ALMOST * (double)most || (best != TIMELINE_NONE && rank < best_rank)) continue;
        if (best != TIMELINE_NONE && rank == best_rank && v[i].delay_ns <= v[best].delay_ns) continue;
        best = i; /* its calls began first */
        best_rank = rank;
    }
    return best;
}

void build_owners_elect(struct build_owners *o, const struct timeline_builder *b) {
    uint32_t *order = columns_order(o->first_ns, b->lanes.n);
    bool *here = xcalloc((b->devices.n + 1) * o->n, sizeof *here),
         *anywhere = xcalloc(o->n, sizeof *anywhere);
    for (size_t i = 0; i < b->lanes.n; i++) {
        size_t lane = order ? order[i] : i;
        bool *on_device = &here[b->lanes.v[lane].device * o->n];
        uint32_t owner = o->of_lane[lane] = best_owner(o, lane, on_device, anywhere);
        if (owner != TIMELINE_NONE) on_device[owner] = anywhere[owner] = true;
    }
    free(order);
    free(here);
    free(anywhere);
}

/* Adds a process for each owner except the one that the file names. Returns the process of each owner. */
static uint32_t *add_processes(struct timeline_builder *b, const struct build_owners *o) {
    uint32_t *rows = xmalloc((o->n + 1) * sizeof *rows), file = (uint32_t)b->processes.n - 1;
    for (uint32_t i = 0; i < o->n; i++) {
        const struct timeline_process *p = &b->processes.v[file];
        rows[i] = file;
        if (p->pid == o->pids[i]) continue;
        struct timeline_process q = { .path = p->path,
                                      .pid = o->pids[i],
                                      .rank = TIMELINE_NONE,
                                      .world_size = TIMELINE_NONE,
                                      .local_rank = TIMELINE_NONE,
                                      .local_size = TIMELINE_NONE,
                                      .node_rank = TIMELINE_NONE,
                                      .host = p->host,
                                      .source = p->source,
                                      .finished = p->finished,
                                      .relative_clock = p->relative_clock,
                                      .has_launches = true };
        rows[i] = (uint32_t)b->processes.n;
        vec_push(&b->processes, q);
    }
    return rows;
}

/* Copies of annotations on a device (gpu_user_annotation) belong to the process of the device's streams. */
static void move_device_threads(struct timeline_builder *b, uint32_t file) {
    for (size_t i = 0; i < b->threads.n; i++) {
        struct timeline_thread *t = &b->threads.v[i];
        uint32_t owner = TIMELINE_NONE;
        bool one = true;
        if (t->process != file || t->device == TIMELINE_NONE) continue;
        for (size_t k = 0; k < b->lanes.n; k++) {
            if (b->lanes.v[k].device != t->device) continue;
            one &= owner == TIMELINE_NONE || owner == b->lanes.v[k].process;
            owner = b->lanes.v[k].process;
        }
        if (one && owner != TIMELINE_NONE) t->process = owner;
    }
}

/* Collectives that were read from a kernel have its id and its start, and no thread. */
static void move_collectives(struct timeline_builder *b, uint32_t file) {
    struct collective_columns *c = &b->collectives;
    const struct kernel_columns *k = &b->kernels;
    size_t first = b->segment.first[TRACE_COLLECTIVE];
    struct intern *keys = c->n > first ? intern_open() : NULL;
    struct {
        uint32_t *v;
        size_t n, cap;
    } processes = { 0 };
    for (size_t i = b->segment.first[TRACE_KERNEL]; keys && i < k->n; i++) {
        uint64_t key[2] = { k->correlation[i], k->start_ns[i] };
        if (b->lanes.v[k->lane[i]].process == file) continue;
        if (intern_id(keys, (const char *)key, sizeof key) == processes.n)
            vec_push(&processes, b->lanes.v[k->lane[i]].process);
    }
    for (size_t i = first; i < c->n; i++) {
        uint64_t key[2] = { c->v[i].correlation, c->start_ns[i] };
        if (c->thread[i] != TIMELINE_NONE) {
            c->process[i] = b->threads.v[c->thread[i]].process;
            continue;
        }
        uint32_t id = intern_id(keys, (const char *)key, sizeof key);
        if (id < processes.n) c->process[i] = processes.v[id];
    }
    if (keys) intern_close(keys);
    free(processes.v);
}

void build_owners_split(struct timeline_builder *b, const struct build_owners *o) {
    uint32_t file = (uint32_t)b->processes.n - 1;
    uint32_t *rows = add_processes(b, o);
    for (size_t i = 0; i < b->threads.n; i++)
        if (o->of_thread[i] != TIMELINE_NONE) b->threads.v[i].process = rows[o->of_thread[i]];
    for (size_t i = 0; i < b->lanes.n; i++)
        if (o->of_lane[i] != TIMELINE_NONE) b->lanes.v[i].process = rows[o->of_lane[i]];
    move_device_threads(b, file);
    move_collectives(b, file);
    free(rows);
}
