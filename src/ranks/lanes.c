#include "ranks/lanes.h"

#include <math.h>
#include <stdlib.h>

#include "analyze/kernel_name.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "ranks/job_findings.h"
#include "ranks/trace_clock.h"
#include "timeline/timeline.h"

#define STEPS 1.25 /* length of the window in steps of the busiest stage */
/* kernels of one kind that are closer than 1/PIXELS of the window are merged into one span */
#define PIXELS 2000.0

/* Returns one flag per shape: true if its kernels communicate. The caller frees the array. */
static bool *communication_shapes(const struct timeline *tl) {
    bool *is = xcalloc(MAX(1, tl->nshapes), sizeof *is);
    for (size_t i = 0; i < tl->nshapes; i++) {
        struct kernel_name name;
        kernel_name_parse(&name, timeline_text(tl, tl->shapes[i].name));
        is[i] = name.category == KERNEL_CATEGORY_COMMUNICATION;
        kernel_name_free(&name);
    }
    return is;
}

static size_t busiest_stage(const struct rank_job *job) {
    size_t best = SIZE_MAX;
    double most = 0;
    for (size_t s = 0; s < job->nstages; s++) {
        double sum = 0;
        if (job->stages[s].parent != RANK_NONE || job->stages[s].outside) continue;
        for (size_t r = 0; r < job->nranks; r++)
            if (rank_job_cell(job, r, s)->wall_ns > 0) sum += rank_job_cell(job, r, s)->wall_ns;
        if (!(sum > most)) continue;
        most = sum;
        best = s;
    }
    return best;
}

static int by_start(const void *pa, const void *pb) {
    const struct rank_kernel *a = pa, *b = pb;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

struct rank_kernel *rank_lane_kernels(const struct timeline *tl) {
    bool *communicates = communication_shapes(tl);
    struct rank_kernel *v = xcalloc(tl->kernels.n + 1, sizeof *v);
    for (size_t i = 0; i < tl->kernels.n; i++)
        v[i] = (struct rank_kernel){ tl->kernels.start_ns[i], tl->kernels.end_ns[i],
                                     communicates[tl->kernels.shape[i]] };
    qsort(v, tl->kernels.n, sizeof *v, by_start);
    free(communicates);
    return v;
}

/* Returns the start of the first communication kernel. The search begins at the middle kernel and wraps
 * around. Without communication kernels, returns the start of the middle kernel. */
static uint64_t window_start(const struct rank_kernel *v, size_t n) {
    for (size_t d = 0; d < n; d++)
        if (v[(n / 2 + d) % n].communication) return v[(n / 2 + d) % n].start_ns;
    return v[n / 2].start_ns;
}

struct spans {
    struct rank_span *v;
    size_t n, cap;
};

static void add_span(struct spans *s, struct rank_span span, double gap_ns) {
    struct rank_span *last = s->n ? &s->v[s->n - 1] : NULL;
    if (last && last->communication == span.communication && span.start_ns - last->end_ns <= gap_ns) {
        last->end_ns = fmax(last->end_ns, span.end_ns);
        return;
    }
    vec_push(s, span);
}

static void fill_lane(const struct rank_clock *clock, const struct rank_kernel *v, size_t n,
                      const struct rank_lanes *window, struct rank_lane *lane) {
    struct spans spans = { 0 };
    for (size_t i = 0; i < n; i++) {
        double start = (double)(int64_t)(rank_clock_to_job(clock, v[i].start_ns) - window->from_ns);
        double end = (double)(int64_t)(rank_clock_to_job(clock, v[i].end_ns) - window->from_ns);
        if (end <= 0 || start >= window->window_ns) continue;
        add_span(&spans,
                 (struct rank_span){ fmax(0, start), fmin(window->window_ns, end), v[i].communication },
                 window->window_ns / PIXELS);
    }
    lane->spans = spans.v;
    lane->nspans = spans.n;
}

static const char *role_of(size_t i, size_t n) {
    static const char *const three[] = { "slowest", "median", "fastest" };
    return i == 0 ? three[0] : i + 1 == n ? three[2] : three[1];
}

static void add_lane(const struct rank_job *job, size_t row, const char *role, double step_ns,
                     const struct rank_kernel *v, size_t n, struct rank_lanes *out) {
    const struct rank_row *r = &job->ranks[row];
    const struct rank_clock *clock = &job->clocks[r->clock];
    if (!out->n) {
        uint64_t middle = rank_clock_to_job(clock, window_start(v, n));
        out->window_ns = STEPS * step_ns;
        out->from_ns = middle - MIN(middle, (uint64_t)(0.1 * step_ns));
    }
    struct rank_lane *lane = &out->v[out->n++];
    *lane = (struct rank_lane){ .rank = r->rank, .role = role };
    fill_lane(clock, v, n, out, lane);
}

/* Reads the rank's trace again, because there was no room for its kernels. */
static void load_lane(const struct rank_job *job, size_t row, const char *role, double step_ns,
                      struct trace_set *readers, struct rank_lanes *out) {
    struct err err;
    const struct rank_clock *clock = &job->clocks[job->ranks[row].clock];
    struct trace_clock_rank rank = { .steps = clock->steps, .nsteps = clock->nsteps };
    struct timeline_clocks clocks = trace_clock_functions(&rank);
    struct timeline_options how = { .clocks = rank.nsteps ? &clocks : NULL, .traces = readers };
    struct timeline *tl = timeline_load_with(&job->ranks[row].trace, 1, &how, &err);
    if (tl && tl->kernels.n) {
        struct rank_kernel *v = rank_lane_kernels(tl);
        add_lane(job, row, role, step_ns, v, tl->kernels.n, out);
        free(v);
    }
    timeline_close(tl);
}

void rank_lanes_load(const struct rank_job *job, struct trace_set *readers, struct rank_lanes *out) {
    size_t rows[3], n = rank_job_choose(job, rows), stage = busiest_stage(job);
    *out = (struct rank_lanes){ 0 };
    double step_ns = stage != SIZE_MAX ? rank_step_ns(job, stage) : NAN;
    if (!(step_ns > 0)) return;
    for (size_t i = 0; i < n; i++) {
        const struct rank_row *r = &job->ranks[rows[i]];
        if (!r->trace || r->clock >= job->nclocks) continue;
        if (r->kept_kernels)
            add_lane(job, rows[i], role_of(i, n), step_ns, r->kept_kernels, r->nkept_kernels, out);
        else
            load_lane(job, rows[i], role_of(i, n), step_ns, readers, out);
    }
}

void rank_lanes_free(struct rank_lanes *l) {
    for (size_t i = 0; i < l->n; i++) free(l->v[i].spans);
    *l = (struct rank_lanes){ 0 };
}
