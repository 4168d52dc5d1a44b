#include "ranks/clocks.h"

#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/stats.h"
#include "base/util.h"
#include "base/vec.h"
#include "ranks/clock_fit.h"
#include "ranks/match.h"

/* a converted time further than this from the hint is converted with the other segments, too */
#define AMBIGUOUS_NS 1000000
#define LEAST_POINTS 2      /* minimum number of matched collectives for a fit */
#define LEAST_STEP_NS 2000  /* a smaller step of a clock is not reported */
#define SPLIT_LEAST_NS 50e3 /* a smaller difference between ranks of a node does not mean different clocks */
#define BACKWARD 4          /* collectives that ended later than a following one, if a clock was set back */
#define EDGE_POINTS 7  /* most points of a possible step at the start or end; the fit finds longer ones */
#define EDGE_ERRORS 6  /* least height of a possible step, in errors of the line */
#define SPLIT_POINTS 8 /* minimum number of matched collectives for a rank to get its own clock */

/* ---- conversion */

static double offset_at(const struct rank_clock_segment *s, uint64_t own_ns) {
    double since = own_ns >= s->at_ns ? (double)(own_ns - s->at_ns) : -(double)(s->at_ns - own_ns);
    return s->offset_ns + s->drift * since;
}

static uint64_t shifted(uint64_t own_ns, double offset_ns) {
    if (!(fabs(offset_ns) < 4e18)) return own_ns; /* no clock is off by 126 years: damaged input */
    if (offset_ns > (double)own_ns) return 0;
    return (uint64_t)((int64_t)own_ns - llround(offset_ns));
}

static uint64_t distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

uint64_t clocks_to_job(const struct rank_clock *c, uint64_t own_ns, uint64_t near_ns) {
    size_t i = 0;
    for (size_t k = 1; k < c->nsegments; k++)
        if (c->segments[k].from_ns <= own_ns) i = k;
    uint64_t best = shifted(own_ns, offset_at(&c->segments[i], own_ns));
    if (!near_ns || distance(best, near_ns) < AMBIGUOUS_NS) return best;
    for (size_t k = 0; k < c->nsegments; k++) {
        uint64_t other = shifted(own_ns, offset_at(&c->segments[k], own_ns));
        if (distance(other, near_ns) < distance(best, near_ns)) best = other;
    }
    return best;
}

/* Returns how far a job time is outside of the period of segment k; 0: inside. */
static uint64_t outside(const struct rank_clock *c, size_t k, uint64_t job_ns) {
    uint64_t from = c->segments[k].begin_ns;
    uint64_t to = k + 1 < c->nsegments ? c->segments[k + 1].begin_ns : UINT64_MAX;
    return job_ns < from ? from - job_ns : job_ns > to ? job_ns - to : 0;
}

/* Converts the end of a collective. `before` is the end of the previous one on the job's clock; 0: none.
 * After a backward step, a clock shows some times twice. The result that is closest to `before` and to the
 * period of its segment is used. */
static uint64_t to_job_after(const struct rank_clock *c, uint64_t own_ns, uint64_t before) {
    uint64_t best = 0, least = UINT64_MAX;
    for (size_t k = 0; k < c->nsegments; k++) {
        uint64_t ns = shifted(own_ns, offset_at(&c->segments[k], own_ns));
        uint64_t cost = outside(c, k, ns) + (before ? distance(ns, before) : 0);
        if (cost >= least) continue;
        least = cost;
        best = ns;
    }
    return best;
}

uint64_t rank_clock_to_job(const struct rank_clock *c, uint64_t own_ns) {
    return clocks_to_job(c, own_ns, 0);
}

double rank_clock_drift(const struct rank_clock *c) {
    return c->nsegments && !isnan(c->segments[0].drift_error) ? c->segments[0].drift : NAN;
}

bool rank_clock_change(const struct rank_clock *c, size_t i, struct rank_clock_change *out) {
    double shift = 0;
    for (size_t k = 0; k < i && k < c->nsteps; k++) shift += c->steps[k].step_ns;
    if (i < c->nsteps) {
        const struct rank_clock_step *s = &c->steps[i];
        *out = (struct rank_clock_change){ rank_clock_to_job(c, shifted(s->at_ns, shift)), s->step_ns,
                                           s->error_ns, true };
        return true;
    }
    i -= c->nsteps;
    for (size_t k = 1; k < c->nsegments; k++) {
        const struct rank_clock_segment *s = &c->segments[k];
        if (s->step_ns == 0 || i-- > 0) continue;
        *out = (struct rank_clock_change){ s->begin_ns, s->step_ns, s->step_error_ns, false };
        return true;
    }
    return false;
}

/* ---- ranks of a node with different clocks */

struct ends {
    double *v;
    size_t n, cap;
};

/* Collects, per rank, how much later its collectives end than those of the rank before it, if both are on the
 * same node. At most 4096 values per rank. */
static void collect_differences(struct rank_digest *const *digests, size_t n, const uint32_t *group_of,
                                struct ends *differences) {
    struct match_walk *w = match_open(digests, n);
    for (struct match_group g; match_next(w, &g);)
        for (size_t i = 0; i < g.n; i++) {
            uint32_t digest = g.members[i].digest, before = i ? g.members[i - 1].digest : UINT32_MAX;
            if (!i || group_of[before] != group_of[digest] || differences[digest].n >= 4096) continue;
            vec_push(&differences[digest], (double)((int64_t)(g.members[i].collective->end_ns -
                                                              g.members[i - 1].collective->end_ns)));
        }
    match_close(w);
}

/* Gives a rank its own clock if its collectives end at a different time than on the previous rank of the
 * node, and this difference is much larger than its scatter. Returns the number of clocks. */
static size_t split_groups(struct rank_digest *const *digests, size_t n, uint32_t *group_of, size_t ngroups) {
    struct ends *differences = xcalloc(n + 1, sizeof *differences);
    collect_differences(digests, n, group_of, differences);
    for (size_t i = 0; i < n; i++) {
        struct ends *e = &differences[i];
        struct stats s = stats_of(e->v, e->n);
        for (size_t k = 0; k < e->n; k++) e->v[k] = fabs(e->v[k] - s.median);
        double scatter = e->n ? STATS_MAD_TO_SIGMA * stats_median_sorting(e->v, e->n) : 0;
        if (e->n >= SPLIT_POINTS && fabs(s.median) > fmax(SPLIT_LEAST_NS, 10 * scatter))
            group_of[i] = (uint32_t)ngroups++;
        free(e->v);
    }
    free(differences);
    return ngroups;
}

/* ---- fitting */

struct points {
    struct clock_point *v;
    size_t n, cap;
};
struct fitter {
    struct rank_digest *const *digests;
    size_t n;
    struct rank_clocks *out;
    uint64_t origin_ns; /* subtracted from times before they become doubles, to keep their precision */
    bool *fitted;       /* [clocks] */
    uint64_t *seen_in;  /* [clocks]: number of the matched collective that added the last point */
    uint64_t groups;    /* matched collectives walked so far */
    /* match key of the last collective, and its end on the job's clock; 0: none */
    uint64_t match, last_end_ns;
};

/* Returns the job time at which a collective ended: the median over its ranks with a fitted clock (at most
 * 64). 0: it has no such rank. Collectives of one operation are passed in the order of their sequence. */
static uint64_t reference_end(struct fitter *f, const struct match_group *g) {
    double v[64];
    uint64_t first = 0, match = match_operation(f->digests, &g->members[0])->match;
    size_t n = 0;
    if (match != f->match) f->last_end_ns = 0;
    f->match = match;
    for (size_t i = 0; i < g->n && n < COUNTOF(v); i++) {
        uint32_t clock = f->out->of_digest[g->members[i].digest];
        if (!f->fitted[clock]) continue;
        uint64_t own = g->members[i].collective->end_ns;
        const struct rank_clock *c = &f->out->v[clock];
        uint64_t end = first ? clocks_to_job(c, own, first) : to_job_after(c, own, f->last_end_ns);
        if (!first) first = end;
        v[n++] = (double)(int64_t)(end - first);
    }
    if (!n) return 0;
    return f->last_end_ns = first + (uint64_t)(int64_t)llround(stats_median_sorting(v, n));
}

/* Adds one point per clock that is not fitted: the median end over consecutive ranks with that clock (at most
 * 64). */
static void add_points(struct fitter *f, const struct match_group *g, struct points *points) {
    uint64_t reference = reference_end(f, g);
    f->groups++;
    for (size_t i = 0, next; i < g->n && reference; i = next) {
        uint32_t clock = f->out->of_digest[g->members[i].digest];
        uint64_t base = g->members[i].collective->end_ns;
        double ends[64];
        size_t n = 0;
        for (next = i; next < g->n && f->out->of_digest[g->members[next].digest] == clock; next++)
            if (n < COUNTOF(ends)) ends[n++] = (double)(int64_t)(g->members[next].collective->end_ns - base);
        if (f->fitted[clock] || f->seen_in[clock] == f->groups) continue;
        f->seen_in[clock] = f->groups;
        uint64_t own = base + (uint64_t)(int64_t)llround(stats_median_sorting(ends, n));
        struct clock_point p = { (double)(int64_t)(reference - f->origin_ns),
                                 (double)(int64_t)(own - reference) };
        vec_push(&points[clock], p);
    }
}

static int by_reference(const void *pa, const void *pb) {
    const struct clock_point *a = pa, *b = pb;
    return (a->reference_ns > b->reference_ns) - (a->reference_ns < b->reference_ns);
}

/* Converts a line, which is a function of the reference time, to a segment, which is a function of the rank's
 * own time. */
static struct rank_clock_segment segment_of(const struct fitter *f, const struct clock_line *l) {
    uint64_t reference = f->origin_ns + (uint64_t)(int64_t)llround(l->at_ns);
    return (struct rank_clock_segment){
        .at_ns = reference + (uint64_t)(int64_t)llround(l->offset_ns),
        .offset_ns = l->offset_ns,
        .drift = l->drift / (1 + l->drift),
        .drift_error = l->drift_error,
        .error_ns = l->error_ns,
        .points = l->n,
    };
}

/* Returns the rank's own time at a time of the reference clock. Both are relative to f->origin_ns. */
static double own_time(const struct clock_line *l, double reference_ns) {
    return reference_ns + l->offset_ns + l->drift * (reference_ns - l->at_ns);
}

static uint64_t absolute(const struct fitter *f, double ns) {
    return f->origin_ns + (uint64_t)(int64_t)llround(ns);
}

/* Sets the step between two lines. It is 0 if it may be an error of the two fits. */
static void set_step(const struct fitter *f, const struct clock_line *before, double last_ns, double first_ns,
                     const struct clock_line *line, struct rank_clock_segment *s) {
    double at = (last_ns + first_ns) / 2;
    double height = own_time(line, at) - own_time(before, at);
    double error = sqrt(before->error_ns * before->error_ns + line->error_ns * line->error_ns);
    s->before_ns = absolute(f, own_time(before, last_ns));
    s->after_ns = absolute(f, own_time(line, first_ns));
    s->job_before_ns = absolute(f, last_ns);
    s->job_after_ns = absolute(f, first_ns);
    s->step_error_ns = error;
    s->step_ns = !isnan(error) && fabs(height) > fmax(LEAST_STEP_NS, 2 * error) ? height : 0;
}

/* A segment begins halfway between the last collective before the change and the first one after it. After a
 * forward step, the own times between the two lines are divided in the middle; after a backward step, all
 * times of the new line belong to the new segment. */
static void set_begin(const struct fitter *f, const struct clock_line *before, double last_ns,
                      double first_ns, const struct clock_line *line, struct rank_clock_segment *s) {
    double at = (last_ns + first_ns) / 2, old = own_time(before, at), new = own_time(line, at);
    s->begin_ns = absolute(f, at);
    s->from_ns = absolute(f, new > old ? (old + new) / 2 : new);
    set_step(f, before, last_ns, first_ns, line, s);
}

/* Looks for a possible step at one end of the points: the outermost ones are on the same side of the line and
 * about equally far from it. A single point is an outlier if the line has others. */
static void find_edge(const struct clock_point *p, const struct clock_line *l, bool is_last,
                      struct rank_clock *out) {
    double sum = 0, least = fmax(LEAST_STEP_NS, EDGE_ERRORS * l->error_ns);
    size_t k = 0;
    if (l->n <= 2 * EDGE_POINTS) return;
    for (; k <= EDGE_POINTS; k++) {
        const struct clock_point *at = &p[is_last ? l->first + l->n - 1 - k : l->first + k];
        double far = at->reference_ns + at->difference_ns - own_time(l, at->reference_ns);
        if (!(fabs(far) > least) || (k && fabs(far - sum / (double)k) > fabs(far) / 2)) break;
        sum += far;
    }
    if (!k || k > EDGE_POINTS || (k == 1 && l->outliers > 1) || fabs(sum / (double)k) <= fabs(out->edge_ns))
        return;
    out->edge_ns = sum / (double)k;
    out->edge_points = k;
    out->edge_is_last = is_last;
}

static void set_segments(const struct fitter *f, struct points *p, double parent_error,
                         struct rank_clock *out) {
    struct clock_line lines[CLOCK_SEGMENTS_MAX];
    qsort(p->v, p->n, sizeof *p->v, by_reference);
    out->nsegments = clock_fit(p->v, p->n, lines);
    free(out->segments);
    out->segments = xcalloc(out->nsegments + 1, sizeof *out->segments);
    out->source = RANK_CLOCK_COLLECTIVES;
    out->error_ns = 0;
    for (size_t i = 0; i < out->nsegments; i++) {
        struct rank_clock_segment *s = &out->segments[i];
        *s = segment_of(f, &lines[i]);
        s->error_ns = sqrt(s->error_ns * s->error_ns + parent_error * parent_error);
        if (i)
            set_begin(f, &lines[i - 1], p->v[lines[i].first - 1].reference_ns,
                      p->v[lines[i].first].reference_ns, &lines[i], s);
        /* NaN, the error of a single point, is kept */
        if (!(s->error_ns <= out->error_ns)) out->error_ns = s->error_ns;
        out->outliers += lines[i].outliers;
    }
    find_edge(p->v, &lines[0], false, out);
    find_edge(p->v, &lines[out->nsegments - 1], true, out);
    if (fabs(out->edge_ns) > out->error_ns) out->error_ns = fabs(out->edge_ns);
}

/* Fits every clock that shares at least LEAST_POINTS collectives with fitted clocks. Returns false if there
 * is none. */
static bool fit_round(struct fitter *f) {
    struct points *points = xcalloc(f->out->n + 1, sizeof *points);
    struct match_walk *w = match_open(f->digests, f->n);
    double parent_error = 0;
    bool any = false;
    for (struct match_group g; match_next(w, &g);) add_points(f, &g, points);
    match_close(w);
    for (size_t c = 0; c < f->out->n; c++)
        if (f->fitted[c] && f->out->v[c].error_ns > parent_error) parent_error = f->out->v[c].error_ns;
    bool *now = xcalloc(f->out->n + 1, sizeof *now);
    for (size_t c = 0; c < f->out->n; c++) {
        if (points[c].n >= LEAST_POINTS) {
            set_segments(f, &points[c], parent_error, &f->out->v[c]);
            now[c] = any = true;
        }
        free(points[c].v);
    }
    for (size_t c = 0; c < f->out->n; c++) f->fitted[c] |= now[c];
    free(now);
    free(points);
    return any;
}

static bool has_unfitted(const struct fitter *f) {
    for (size_t c = 0; c < f->out->n; c++)
        if (!f->fitted[c]) return true;
    return false;
}

/* Returns true if a collective ended before the BACKWARD collectives before it of the same operation: the
 * clock was set back. Fewer of them may be outliers, which ended late. The collectives of a digest are sorted
 * by operation and sequence number. */
static bool runs_backward(const struct rank_digest *d) {
    for (size_t i = 1, first = 0; i < d->ncollectives; i++) {
        const struct digest_collective *c = d->collectives;
        if (d->operations[c[i].operation].match != d->operations[c[first].operation].match) first = i;
        size_t later = 0;
        for (size_t k = i; k-- > first && i - k <= BACKWARD;)
            later += c[k].end_ns > c[i].end_ns + LEAST_STEP_NS;
        if (later == BACKWARD) return true;
    }
    return false;
}

/* Returns the lowest rank whose clock was not set back by more than the time of BACKWARD collectives; the
 * lowest rank if there is none. Times of the reference must ascend. */
static size_t find_reference(struct rank_digest *const *digests, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!runs_backward(digests[i])) return i;
    return 0;
}

static void start_clock(struct rank_clock *c, uint32_t node, bool relative) {
    *c = (struct rank_clock){ .source = relative ? RANK_CLOCK_RELATIVE : RANK_CLOCK_WALL,
                              .node = node,
                              .segments = xcalloc(1, sizeof *c->segments),
                              .nsegments = 1,
                              .error_ns = NAN };
    c->segments[0].error_ns = c->segments[0].drift_error = NAN;
}

void clocks_find(struct rank_digest *const *digests, size_t n, const uint32_t *node,
                 struct rank_clocks *out) {
    *out = (struct rank_clocks){ .of_digest = xcalloc(n + 1, sizeof *out->of_digest) };
    size_t groups = 0;
    for (size_t i = 0; i < n; i++) {
        /* a file without a wall clock shares its clock with no other file */
        out->of_digest[i] = digests[i]->relative_clock ? UINT32_MAX : node[i];
        if (!digests[i]->relative_clock) groups = MAX(groups, (size_t)node[i] + 1);
    }
    for (size_t i = 0; i < n; i++)
        if (out->of_digest[i] == UINT32_MAX) out->of_digest[i] = (uint32_t)groups++;
    groups = split_groups(digests, n, out->of_digest, groups);
    out->n = groups;
    out->v = xcalloc(groups + 1, sizeof *out->v);
    for (size_t i = 0; i < n; i++) {
        struct rank_clock *c = &out->v[out->of_digest[i]];
        if (!c->nsegments) start_clock(c, node[i], digests[i]->relative_clock);
    }
    for (size_t c = 0; c < groups; c++)
        if (!out->v[c].nsegments) start_clock(&out->v[c], RANK_NONE, false);
    if (!n) return;
    size_t first = find_reference(digests, n);
    out->reference = out->of_digest[first];
    struct rank_clock *reference = &out->v[out->reference];
    reference->source = RANK_CLOCK_REFERENCE;
    reference->error_ns = reference->segments[0].error_ns = reference->segments[0].drift_error = 0;
    struct fitter f = { .digests = digests,
                        .n = n,
                        .out = out,
                        .origin_ns = digests[first]->first_ns,
                        .fitted = xcalloc(groups + 1, sizeof *f.fitted) };
    f.fitted[out->reference] = true;
    f.seen_in = xcalloc(groups + 1, sizeof *f.seen_in);
    while (has_unfitted(&f) && fit_round(&f)) {}
    free(f.fitted);
    free(f.seen_in);
}

void clocks_free(struct rank_clocks *c) {
    for (size_t i = 0; i < c->n; i++) free(c->v[i].segments);
    free(c->v);
    free(c->of_digest);
    *c = (struct rank_clocks){ 0 };
}
