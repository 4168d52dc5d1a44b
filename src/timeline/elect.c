/* Finds the process of each stream in a file of several processes that does not say it. The correlation ids
 * of two processes may be equal. So a stream belongs to the process that has most of the calls with its ids
 * which began before the work, and which have no work on another stream: except for graphs, a call starts
 * work on one stream. If two processes have almost equally many, it is the one whose calls precede work on
 * the idle stream by the most constant time, else the one that already has the device, else one that has no
 * device yet, else the one that called first. Streams are assigned in the order of their first work. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "timeline/build.h"

#define ALMOST 0.9      /* part of the most votes with which another process may be the owner */
#define WEIGHT_USED 0.1 /* of the vote of a call with work on another stream */
#define IDLE_NS 2000    /* kernels of a full queue begin about 1 us after each other */
#define MIN_DELAYS 8    /* that are compared */
#define LESS 0.7        /* part of the spread of another process's delays that is less, not chance */

/* The kernels or copies of the open process, by stream. */
struct work {
    const uint64_t *start_ns, *end_ns, *correlation;
    const uint32_t *lane;
    uint32_t *order;    /* rows by stream, then start; NULL: already in order */
    size_t n, *of_lane; /* of_lane[i] to of_lane[i + 1]: positions of stream i */
};

struct vote {
    double n, delay_ns; /* delay: sum of times from the call to the work */
    /* Times from the call to work on the idle stream, also negative ones: number, mean and sum of squared
     * deviations. The launch takes about the same time each time; the time from another process's call also
     * has the changes of the time between the two processes. */
    double delays, mean_ns, squares;
};

struct election {
    const struct timeline_builder *b;
    struct build_owners *owners;
    struct build_calls *calls;
    struct work kernels, copies;
    unsigned char *used; /* [launches.n]: the call has work on a stream with an owner */
    struct vote *votes;  /* [owners.n] */
    size_t contested;    /* work that calls of several processes have voted for */
};

static struct work work_by_lane(const struct timeline_builder *b, const uint64_t *start_ns,
                                const uint64_t *end_ns, const uint64_t *correlation, const uint32_t *lane,
                                size_t first, size_t n) {
    struct work w = { .n = n, .of_lane = xcalloc(b->lanes.n + 2, sizeof *w.of_lane) };
    if (!n) return w; /* the columns may be NULL */
    w.start_ns = start_ns + first;
    w.end_ns = end_ns + first;
    w.correlation = correlation + first;
    w.lane = lane + first;
    w.order = columns_order_by(columns_order(w.start_ns, n), w.lane, n, b->lanes.n);
    for (size_t i = 0; i < n; i++) w.of_lane[w.lane[i] + 1]++;
    for (size_t i = 0; i < b->lanes.n; i++) w.of_lane[i + 1] += w.of_lane[i];
    return w;
}

static void free_work(struct work *w) {
    free(w->order);
    free(w->of_lane);
}

static bool is_nameless(const struct timeline_builder *b, uint32_t launch) {
    return b->launches.api_kind[launch] == TIMELINE_API_OTHER && !b->launches.api[launch];
}

/* Calls like cudaStreamSynchronize start no work. A call of an unknown kind counts only if no other call has
 * the id. */
static bool starts_work(const struct timeline_builder *b, uint32_t launch) {
    return b->launches.api_kind[launch] != TIMELINE_API_OTHER || is_nameless(b, launch);
}

static bool any_starts_work(const struct election *e, size_t at, size_t end) {
    for (size_t i = at; i < end; i++)
        if (starts_work(e->b, build_calls_launch(e->calls, i))) return true;
    return false;
}

static void add_delay(struct vote *v, double delay_ns) {
    double off = delay_ns - v->mean_ns;
    v->mean_ns += off / ++v->delays;
    v->squares += off * (delay_ns - v->mean_ns);
}

/* idle: nothing ran on the stream before */
static void vote(struct election *e, uint64_t id, uint64_t start_ns, bool idle) {
    const struct launch_columns *l = &e->b->launches;
    size_t end, at = build_calls_find(e->calls, id, &end);
    bool strict = any_starts_work(e, at, end), contested = false;
    uint32_t first = TIMELINE_NONE;
    for (size_t i = at; i < end; i++) {
        uint32_t launch = build_calls_launch(e->calls, i), owner = e->owners->of_thread[l->thread[launch]];
        if (owner == TIMELINE_NONE || (strict && !starts_work(e->b, launch))) continue;
        if (idle) add_delay(&e->votes[owner], (double)start_ns - (double)l->start_ns[launch]);
        if (l->start_ns[launch] > start_ns) continue;
        contested |= first != TIMELINE_NONE && first != owner;
        first = owner;
        e->votes[owner].n += e->used[launch] ? WEIGHT_USED : 1;
        e->votes[owner].delay_ns += (double)(start_ns - l->start_ns[launch]);
    }
    e->contested += contested;
}

static void use_calls(struct election *e, uint64_t id, uint32_t owner) {
    const struct launch_columns *l = &e->b->launches;
    size_t end, at = build_calls_find(e->calls, id, &end);
    for (size_t i = at; i < end; i++) {
        uint32_t launch = build_calls_launch(e->calls, i);
        if (l->api_kind[launch] == TIMELINE_API_GRAPH) continue;
        e->used[launch] |= e->owners->of_thread[l->thread[launch]] == owner;
    }
}

/* Returns whether the delays of `a` vary less than those of `b`: 1 yes, -1 more, 0 unknown. */
static int varies_less(const struct vote *a, const struct vote *b) {
    if (a->delays < MIN_DELAYS || b->delays < MIN_DELAYS) return 0;
    double of_a = sqrt(a->squares / a->delays), of_b = sqrt(b->squares / b->delays);
    return of_a < LESS * of_b ? 1 : of_b < LESS * of_a ? -1 : 0;
}

/* rank: 2: has a stream of the device, 0: has streams of other devices */
static bool is_better(const struct vote *a, int rank_a, const struct vote *b, int rank_b) {
    int less = varies_less(a, b);
    if (less) return less > 0;
    if (rank_a != rank_b) return rank_a > rank_b;
    return a->delay_ns > b->delay_ns;
}

/* False: the stream can be of another process. */
static bool is_sure(const struct election *e, uint32_t best, double most) {
    if ((double)e->contested < (1 - ALMOST) * most) return true;
    for (uint32_t i = 0; i < e->owners->n; i++)
        if (i != best && e->votes[i].n >= ALMOST * most && varies_less(&e->votes[best], &e->votes[i]) <= 0)
            return false;
    return true;
}

/* Returns the best owner; TIMELINE_NONE: no votes. here[], anywhere[]: owners of earlier streams of this
 * device and of all. Calls that begin long before the work have many of the votes of the right ones, so
 * owners with almost as many votes as the first are compared. */
static uint32_t best_owner(struct election *e, const bool *here, const bool *anywhere) {
    uint32_t best = TIMELINE_NONE;
    double most = 0;
    int best_rank = 0;
    for (uint32_t i = 0; i < e->owners->n; i++) most = MAX(most, e->votes[i].n);
    for (uint32_t i = 0; most > 0 && i < e->owners->n; i++) {
        int rank = here[i] ? 2 : !anywhere[i];
        if (e->votes[i].n < ALMOST * most) continue;
        if (best != TIMELINE_NONE && !is_better(&e->votes[i], rank, &e->votes[best], best_rank)) continue;
        best = i;
        best_rank = rank;
    }
    e->owners->unsure_lanes += best != TIMELINE_NONE && !is_sure(e, best, most);
    return best;
}

static size_t row_at(const struct work *w, size_t i) { return w->order ? w->order[i] : i; }

static void vote_all(struct election *e, const struct work *w, size_t lane) {
    uint64_t busy_ns = 0;
    for (size_t i = w->of_lane[lane]; i < w->of_lane[lane + 1]; i++) {
        size_t row = row_at(w, i);
        vote(e, w->correlation[row], w->start_ns[row], w->start_ns[row] > busy_ns + IDLE_NS);
        busy_ns = MAX(busy_ns, w->end_ns[row]);
    }
}

static void use_all(struct election *e, const struct work *w, size_t lane, uint32_t owner) {
    for (size_t i = w->of_lane[lane]; i < w->of_lane[lane + 1]; i++)
        use_calls(e, w->correlation[row_at(w, i)], owner);
}

static uint32_t elect_lane(struct election *e, size_t lane, const bool *here, const bool *anywhere) {
    memset(e->votes, 0, e->owners->n * sizeof *e->votes);
    e->contested = 0;
    vote_all(e, &e->kernels, lane);
    vote_all(e, &e->copies, lane);
    uint32_t owner = best_owner(e, here, anywhere);
    if (owner == TIMELINE_NONE) return owner;
    use_all(e, &e->kernels, lane, owner);
    use_all(e, &e->copies, lane, owner);
    return owner;
}

/* Streams in the order of their first work. NULL: in that order already. */
static uint32_t *lanes_by_time(const struct election *e) {
    size_t n = e->b->lanes.n;
    const struct work *both[] = { &e->kernels, &e->copies };
    uint64_t *first_ns = xmalloc((n + 1) * sizeof *first_ns);
    memset(first_ns, 0xff, (n + 1) * sizeof *first_ns);
    for (size_t k = 0; k < COUNTOF(both); k++)
        for (size_t i = 0; i < both[k]->n; i++)
            first_ns[both[k]->lane[i]] = MIN(first_ns[both[k]->lane[i]], both[k]->start_ns[i]);
    uint32_t *order = columns_order(first_ns, n);
    free(first_ns);
    return order;
}

static void elect_all(struct election *e) {
    const struct timeline_builder *b = e->b;
    struct build_owners *o = e->owners;
    uint32_t *order = lanes_by_time(e);
    bool *here = xcalloc((b->devices.n + 1) * o->n, sizeof *here),
         *anywhere = xcalloc(o->n, sizeof *anywhere);
    for (size_t i = 0; i < b->lanes.n; i++) {
        size_t lane = order ? order[i] : i;
        bool *on_device = &here[b->lanes.v[lane].device * o->n];
        if (!o->lane_known[lane]) o->of_lane[lane] = elect_lane(e, lane, on_device, anywhere);
        if (o->of_lane[lane] != TIMELINE_NONE)
            on_device[o->of_lane[lane]] = anywhere[o->of_lane[lane]] = true;
    }
    free(order);
    free(here);
    free(anywhere);
}

void build_owners_elect(struct build_owners *o, const struct timeline_builder *b, struct build_calls *calls) {
    const struct kernel_columns *k = &b->kernels;
    const struct copy_columns *c = &b->copies;
    size_t kernel = b->segment.first[TRACE_KERNEL], copy = b->segment.first[TRACE_COPY];
    struct election e = {
        .b = b,
        .owners = o,
        .calls = calls,
        .kernels = work_by_lane(b, k->start_ns, k->end_ns, k->correlation, k->lane, kernel, k->n - kernel),
        .copies = work_by_lane(b, c->start_ns, c->end_ns, c->correlation, c->lane, copy, c->n - copy),
        .used = xcalloc(b->launches.n + 1, 1),
        .votes = xcalloc(o->n, sizeof *e.votes),
    };
    elect_all(&e);
    free_work(&e.kernels);
    free_work(&e.copies);
    free(e.used);
    free(e.votes);
}
