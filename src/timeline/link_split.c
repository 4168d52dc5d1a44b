/* Links the kernels and copies of a file of several processes to their launches. Calls of two processes may
 * have the same correlation id, so all work with one id is linked at once. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "timeline/build.h"

struct linker {
    struct timeline_builder *b;
    const struct build_owners *owners;
    struct build_calls *calls;
    const uint64_t *start_ns;
    const uint32_t *lane;
    uint32_t *launch;
    const uint64_t *correlation;
    bool kernels;   /* of kernels, not of copies */
    uint32_t *call; /* [owners.n]: the first call of each process with the id; TIMELINE_NONE: none */
    bool *taken;    /* [owners.n]: the call has its work */
    bool *mixed;    /* [lanes.n]: kernels of several processes */
    size_t ambiguous;
};

static uint32_t owner_of_lane(const struct linker *l, uint32_t row) {
    return l->owners->of_lane[l->lane[row]];
}

static bool is_known(const struct linker *l, uint32_t row) { return l->owners->lane_known[l->lane[row]]; }

static bool is_graph(const struct linker *l, uint32_t row) {
    const struct kernel_columns *k = &l->b->kernels;
    return l->kernels && (k->graph[row] || k->graph_node[row]);
}

/* Returns whether there are calls with the id. */
static bool find_calls(struct linker *l, uint64_t id) {
    size_t end, at = build_calls_find(l->calls, id, &end);
    memset(l->call, 0xff, l->owners->n * sizeof *l->call);
    memset(l->taken, 0, l->owners->n * sizeof *l->taken);
    for (size_t i = at; i < end; i++) {
        uint32_t launch = build_calls_launch(l->calls, i),
                 owner = l->owners->of_thread[l->b->launches.thread[launch]];
        if (owner != TIMELINE_NONE && l->call[owner] == TIMELINE_NONE) l->call[owner] = launch;
    }
    return at < end;
}

static uint64_t called_ns(const struct linker *l, uint32_t owner) {
    return l->b->launches.start_ns[l->call[owner]];
}

static void take(struct linker *l, uint32_t row, uint32_t owner) {
    l->launch[row] = l->call[owner];
    l->taken[owner] = true;
}

/* Returns whether the process has a call with the id that starts such work. */
static bool fits(const struct linker *l, uint32_t row, uint32_t owner) {
    if (owner == TIMELINE_NONE || l->call[owner] == TIMELINE_NONE) return false;
    enum timeline_api kind = l->b->launches.api_kind[l->call[owner]];
    if (kind == TIMELINE_API_OTHER) return !l->b->launches.api[l->call[owner]];
    if (!l->kernels) return kind != TIMELINE_API_KERNEL;
    return is_graph(l, row) == (kind == TIMELINE_API_GRAPH);
}

/* Returns the process whose call without work began first; TIMELINE_NONE: none. *others: of other processes
 * that also began before the work. */
static uint32_t next_call(const struct linker *l, uint32_t row, size_t *others) {
    uint32_t first = TIMELINE_NONE;
    size_t before = 0;
    for (uint32_t i = 0; i < l->owners->n; i++) {
        if (l->taken[i] || !fits(l, row, i)) continue;
        before += called_ns(l, i) <= l->start_ns[row];
        if (first == TIMELINE_NONE || called_ns(l, i) < called_ns(l, first)) first = i;
    }
    *others = before > 1 ? before - 1 : 0;
    return first;
}

/* Returns whether processes share a stream: several rows are on it, and each has a call of its own. A stream
 * without kernels of several processes has no copies of several either; a copy can be in parts. */
static bool share_a_lane(const struct linker *l, const uint32_t *rows, size_t n) {
    size_t calls = 0;
    bool shared = false;
    if (n < 2 || n > l->owners->n || is_graph(l, rows[0])) return false;
    for (uint32_t i = 0; i < l->owners->n; i++) calls += fits(l, rows[0], i);
    for (size_t i = 0; i < n; i++) {
        if (is_known(l, rows[i])) return false;
        for (size_t k = 0; k < i; k++)
            shared |= l->lane[rows[k]] == l->lane[rows[i]] && (l->kernels || l->mixed[l->lane[rows[i]]]);
    }
    return shared && n <= calls;
}

static bool is_alone(const struct linker *l, const uint32_t *rows, size_t n, size_t at) {
    for (size_t k = 0; k < n; k++)
        if (k != at && l->lane[rows[k]] == l->lane[rows[at]]) return false;
    return true;
}

/* Work on a stream of one process first. The work on a shared stream begins in the order of the calls. */
static void link_in_turn(struct linker *l, const uint32_t *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t owner = owner_of_lane(l, rows[i]);
        if (is_alone(l, rows, n, i) && fits(l, rows[i], owner)) take(l, rows[i], owner);
    }
    for (size_t i = 0; i < n; i++) {
        size_t others;
        if (l->launch[rows[i]] != TIMELINE_NONE) continue;
        uint32_t owner = next_call(l, rows[i], &others);
        if (owner == TIMELINE_NONE) continue;
        l->ambiguous += others > 0;
        l->mixed[l->lane[rows[i]]] = true;
        take(l, rows[i], owner);
    }
}

/* Returns whether work of a graph can be that of a launch of another process, which has no work. */
static bool has_other_graph(const struct linker *l, uint32_t row) {
    size_t others;
    uint32_t owner = is_graph(l, row) && !is_known(l, row) ? next_call(l, row, &others) : TIMELINE_NONE;
    return owner != TIMELINE_NONE && called_ns(l, owner) <= l->start_ns[row];
}

/* If the process of the stream has no such call, it is the call of another process, unless that has work
 * already or began too late. */
static void link_by_lane(struct linker *l, const uint32_t *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t owner = owner_of_lane(l, rows[i]);
        if (fits(l, rows[i], owner)) take(l, rows[i], owner);
    }
    for (size_t i = 0; i < n; i++) {
        size_t others;
        if (l->launch[rows[i]] != TIMELINE_NONE) continue;
        uint32_t lane_owner = owner_of_lane(l, rows[i]),
                 owner = is_known(l, rows[i]) ? TIMELINE_NONE : next_call(l, rows[i], &others);
        if (owner != TIMELINE_NONE && called_ns(l, owner) <= l->start_ns[rows[i]]) {
            l->launch[rows[i]] = l->call[owner];
            l->taken[owner] |= !is_graph(l, rows[i]);
        } else if (lane_owner != TIMELINE_NONE) {
            l->launch[rows[i]] = l->call[lane_owner]; /* a call of an unknown kind, or none */
        }
    }
    l->ambiguous += has_other_graph(l, rows[n - 1]); /* the last one: after most calls */
}

/* rows: with one id */
static void link_group(struct linker *l, const uint32_t *rows, size_t n) {
    if (!n) return;
    if (share_a_lane(l, rows, n))
        link_in_turn(l, rows, n);
    else
        link_by_lane(l, rows, n);
}

/* Work of graphs comes last: a call starts either that or one kernel. */
static int by_id_and_time(const void *pa, const void *pb, void *arg) {
    const struct linker *l = arg;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    if (l->correlation[a] != l->correlation[b]) return l->correlation[a] < l->correlation[b] ? -1 : 1;
    if (is_graph(l, a) != is_graph(l, b)) return is_graph(l, b) ? -1 : 1;
    if (l->start_ns[a] != l->start_ns[b]) return l->start_ns[a] < l->start_ns[b] ? -1 : 1;
    return (a > b) - (a < b);
}

static void link_rows(struct linker *l, size_t first, size_t end) {
    size_t n = 0;
    uint32_t *rows = xmalloc((end - first + 1) * sizeof *rows);
    for (size_t i = first; i < end; i++)
        if (l->correlation[i]) rows[n++] = (uint32_t)i;
    if (n) qsort_r(rows, n, sizeof *rows, by_id_and_time, l);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && l->correlation[rows[j]] == l->correlation[rows[i]];) j++;
        if (!find_calls(l, l->correlation[rows[i]])) continue;
        size_t graph = i;
        while (graph < j && !is_graph(l, rows[graph])) graph++;
        link_group(l, rows + i, graph - i);
        link_group(l, rows + graph, j - graph);
    }
    free(rows);
}

size_t build_owners_link(struct timeline_builder *b, const struct build_owners *o,
                         struct build_calls *calls) {
    struct linker l = { .b = b,
                        .owners = o,
                        .calls = calls,
                        .start_ns = b->kernels.start_ns,
                        .lane = b->kernels.lane,
                        .launch = b->kernels.launch,
                        .correlation = b->kernels.correlation,
                        .kernels = true,
                        .call = xmalloc(o->n * sizeof *l.call),
                        .taken = xcalloc(o->n, sizeof *l.taken),
                        .mixed = xcalloc(b->lanes.n + 1, sizeof *l.mixed) };
    link_rows(&l, b->segment.first[TRACE_KERNEL], b->kernels.n);
    l.start_ns = b->copies.start_ns;
    l.lane = b->copies.lane;
    l.launch = b->copies.launch;
    l.correlation = b->copies.correlation;
    l.kernels = false;
    link_rows(&l, b->segment.first[TRACE_COPY], b->copies.n);
    free(l.call);
    free(l.taken);
    free(l.mixed);
    return l.ambiguous;
}
