/* Several processes in one file, such as the joined traces of two ranks. The importer says to which process a
 * thread belongs ("thread.N.pid") if the file has calls of several, and, if the file says it, the process of
 * the work on a device ("context.N.pid"). Otherwise elect.c finds the process of each stream. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "timeline/build.h"

#define OWNERS_MAX 128 /* a file with more processes stays one process */

/* Returns the row of the pid, which is added if it is new; TIMELINE_NONE: too many. */
static uint32_t owner_of_pid(struct build_owners *o, uint32_t pid, bool *too_many) {
    for (uint32_t i = 0; i < o->n; i++)
        if (o->pids[i] == pid) return i;
    *too_many |= o->n == OWNERS_MAX;
    if (o->n == OWNERS_MAX) return TIMELINE_NONE;
    o->pids[o->n] = pid;
    return o->n++;
}

static uint32_t *all_unknown(size_t n) {
    uint32_t *v = xmalloc((n + 1) * sizeof *v);
    memset(v, 0xff, (n + 1) * sizeof *v);
    return v;
}

/* Returns false if there are too many. */
static bool find_named(struct build_owners *o, const struct timeline_builder *b) {
    uint32_t process = (uint32_t)b->processes.n - 1;
    bool too_many = false;
    for (size_t i = 0; i < b->threads.n && !too_many; i++) {
        const struct timeline_thread *t = &b->threads.v[i];
        if (t->process == process && t->pid != TIMELINE_NONE)
            o->of_thread[i] = owner_of_pid(o, t->pid, &too_many);
    }
    for (size_t i = 0; i < b->lanes.n && !too_many; i++) {
        const struct timeline_lane *l = &b->lanes.v[i];
        o->lane_known[i] = l->process == process && l->pid != TIMELINE_NONE;
        o->any_known |= o->lane_known[i];
        if (o->lane_known[i]) o->of_lane[i] = owner_of_pid(o, l->pid, &too_many);
    }
    return !too_many;
}

/* The importer names all threads of the processes that it knows. So the calls of other threads are those of
 * another process, or of several. */
static void find_nameless(struct build_owners *o, struct timeline_builder *b) {
    size_t calls = 0;
    uint32_t owner = o->n;
    for (size_t i = b->segment.first[TRACE_LAUNCH]; i < b->launches.n; i++) {
        uint32_t *of = &o->of_thread[b->launches.thread[i]];
        if (*of == TIMELINE_NONE) *of = owner;
        calls += *of == owner;
    }
    if (!calls) return;
    o->pids[o->n++] = TIMELINE_NONE;
    timeline_builder_warning(b,
                             "%s: the process of %zu call%s is unknown: they are shown as one process, and "
                             "its times are wrong if there are several; import the trace of each process on "
                             "its own",
                             build_file_name(b), calls, calls == 1 ? "" : "s");
}

bool build_owners_open(struct build_owners *o, struct timeline_builder *b) {
    /* one more for calls of unknown processes */
    *o = (struct build_owners){ .pids = xcalloc(OWNERS_MAX + 1, sizeof *o->pids),
                                .of_thread = all_unknown(b->threads.n),
                                .of_lane = all_unknown(b->lanes.n),
                                .lane_known = xcalloc(b->lanes.n + 1, sizeof *o->lane_known) };
    bool all = find_named(o, b);
    if (!all)
        timeline_builder_warning(
            b, "%s: calls of more than %d processes, read as one: the times of steps that overlap are wrong",
            build_file_name(b), OWNERS_MAX);
    if (all && o->n > 1) {
        find_nameless(o, b);
        return true;
    }
    build_owners_close(o);
    return false;
}

void build_owners_close(struct build_owners *o) {
    free(o->pids);
    free(o->of_thread);
    free(o->of_lane);
    free(o->lane_known);
    *o = (struct build_owners){ 0 };
}

static uint32_t add_process(struct timeline_builder *b, uint32_t file, uint32_t pid) {
    const struct timeline_process *p = &b->processes.v[file];
    struct timeline_process q = { .path = p->path,
                                  .pid = pid,
                                  .rank = TIMELINE_NONE,
                                  .world_size = TIMELINE_NONE,
                                  .local_rank = TIMELINE_NONE,
                                  .local_size = TIMELINE_NONE,
                                  .node_rank = TIMELINE_NONE,
                                  .host = p->host,
                                  .source = p->source,
                                  .finished = p->finished,
                                  .relative_clock = p->relative_clock };
    vec_push(&b->processes, q);
    return (uint32_t)b->processes.n - 1;
}

/* Returns the owner with the lowest pid that has no process yet. */
static uint32_t next_owner(const struct build_owners *o, const uint32_t *rows) {
    uint32_t next = TIMELINE_NONE;
    for (uint32_t i = 0; i < o->n; i++)
        if (rows[i] == TIMELINE_NONE && (next == TIMELINE_NONE || o->pids[i] < o->pids[next])) next = i;
    return next;
}

/* Adds a process for each owner except the one that the file names, in the order of their pids. Returns the
 * process of each owner. */
static uint32_t *add_processes(struct timeline_builder *b, const struct build_owners *o) {
    uint32_t *rows = all_unknown(o->n), file = (uint32_t)b->processes.n - 1, pid = b->processes.v[file].pid;
    for (uint32_t i = 0; i < o->n; i++) {
        uint32_t owner = next_owner(o, rows);
        rows[owner] = o->pids[owner] == pid ? file : add_process(b, file, o->pids[owner]);
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

/* Adds a copy of a lane for work of another process. The id of a lane is its number in lane_ids, so the copy
 * is added there, too; its key is no lane of a file, which has four numbers. */
static uint32_t copy_lane(struct timeline_builder *b, uint32_t lane, uint32_t process) {
    struct timeline_lane copy = b->lanes.v[lane];
    uint32_t key[2] = { lane, process };
    copy.process = process;
    uint32_t id = intern_id(b->lane_ids, (const char *)key, sizeof key);
    if (id == b->lanes.n) vec_push(&b->lanes, copy);
    return id;
}

/* Work goes to the process of its call. A stream with work of several processes, which share a device,
 * becomes one stream of each. */
static void move_work(struct timeline_builder *b, const struct build_owners *o, const uint32_t *rows,
                      uint32_t *lane, const uint32_t *launch, size_t first, size_t n) {
    for (size_t i = first; i < n; i++) {
        if (launch[i] == TIMELINE_NONE) continue;
        uint32_t owner = o->of_thread[b->launches.thread[launch[i]]];
        if (owner != TIMELINE_NONE && b->lanes.v[lane[i]].process != rows[owner])
            lane[i] = copy_lane(b, lane[i], rows[owner]);
    }
}

void build_owners_split(struct timeline_builder *b, const struct build_owners *o) {
    uint32_t file = (uint32_t)b->processes.n - 1;
    uint32_t *rows = add_processes(b, o);
    for (size_t i = 0, n = b->threads.n; i < n; i++)
        if (o->of_thread[i] != TIMELINE_NONE) b->threads.v[i].process = rows[o->of_thread[i]];
    for (size_t i = 0, n = b->lanes.n; i < n; i++)
        if (o->of_lane[i] != TIMELINE_NONE) b->lanes.v[i].process = rows[o->of_lane[i]];
    move_work(b, o, rows, b->kernels.lane, b->kernels.launch, b->segment.first[TRACE_KERNEL], b->kernels.n);
    move_work(b, o, rows, b->copies.lane, b->copies.launch, b->segment.first[TRACE_COPY], b->copies.n);
    move_device_threads(b, file);
    move_collectives(b, file);
    free(rows);
}
