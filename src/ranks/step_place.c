#include "ranks/step_place.h"

#include <math.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "base/die.h"
#include "base/hash.h"
#include "base/stats.h"
#include "base/util.h"
#include "base/vec.h"
#include "trace/reader_set.h"

#define RANKS_READ 8             /* ranks of the clock whose traces are read */
#define MARGIN_NS 20000000ull    /* kernels in this time before and after the window are compared */
#define SPANS_MAX 400000         /* per rank */
#define KEPT 8                   /* most likely spans per stream */
#define TYPICAL_LEAST 4          /* minimum number of spans of a kind for a comparison */
#define SPREAD_NS 300.0          /* typical distance of a duration to the closest ones of its kind */
#define TOLERANCE_NS 1000.0      /* error of the borders of a span */
#define NO_SPAN_EVIDENCE (-10.0) /* evidence of a stream in which no span can contain the step */

/* A kernel, or the gap between two kernels of a stream. */
struct span {
    uint64_t stream, kind; /* spans of one kind take about the same time */
    uint64_t start_ns, end_ns;
};
struct spans {
    struct span *v;
    size_t n, cap;
};

/* A span that may contain the step. */
struct place {
    double evidence;
    uint64_t from_ns, to_ns; /* when the step happened, as the clock showed it before the step */
    size_t stream;           /* number of the stream, over all ranks */
};
struct places {
    struct place *v;
    size_t n, cap;
    size_t streams;
};

static double since(uint64_t from_ns, uint64_t to_ns) { return (double)(int64_t)(to_ns - from_ns); }

/* ---- reading */

struct stream_end { /* latest kernel of a stream */
    uint64_t stream, kind, end_ns;
};
struct reading {
    struct spans spans;
    struct {
        struct stream_end *v;
        size_t n, cap;
    } streams;
    uint64_t from_ns, to_ns;
};

static struct stream_end *find_stream(struct reading *r, uint64_t stream) {
    for (size_t i = 0; i < r->streams.n; i++)
        if (r->streams.v[i].stream == stream) return &r->streams.v[i];
    vec_push(&r->streams, ((struct stream_end){ .stream = stream }));
    return &r->streams.v[r->streams.n - 1];
}

static void add_kernels(struct reading *r, const struct trace_batch *b, uint64_t file) {
    for (size_t i = 0; i < b->n && r->spans.n < SPANS_MAX; i++) {
        const struct trace_kernel *k = &b->kernel[i];
        if (MAX(k->start_ns, k->end_ns) < r->from_ns || MIN(k->start_ns, k->end_ns) > r->to_ns) continue;
        uint64_t stream = hash_u64(hash_u64(file + k->device) ^ k->context) ^ hash_u64(k->stream);
        uint64_t kind = hash_u64(hash_u64(k->name) ^ ((uint64_t)k->grid_x << 32 | k->grid_y)) ^ k->grid_z;
        struct stream_end *s = find_stream(r, stream);
        if (s->end_ns)
            vec_push(&r->spans, ((struct span){ stream, hash_u64(s->kind) ^ kind, s->end_ns, k->start_ns }));
        vec_push(&r->spans, ((struct span){ stream, kind, k->start_ns, k->end_ns }));
        s->kind = kind;
        s->end_ns = k->end_ns;
    }
}

/* Reads the kernels of a rank near the window, in the order of the files. */
static struct spans read_spans(const struct rank_digest *d, const struct step_window *w,
                               struct trace_set *readers) {
    uint64_t low = MIN(w->before_ns, w->after_ns), high = MAX(w->before_ns, w->after_ns);
    uint64_t margin = MAX(MARGIN_NS, 10 * (high - low));
    struct reading r = { .from_ns = low - MIN(low, margin), .to_ns = high + margin };
    struct trace_batch batch = { 0 };
    struct err err;
    for (size_t f = 0; f < d->ntraces; f++) {
        struct trace_reader *reader = trace_set_take(readers, d->traces[f], &err);
        for (size_t i = 0; reader && i < trace_reader_chunks(reader); i++)
            if (trace_reader_chunk(reader, i)->kind == TRACE_KERNEL &&
                trace_reader_decode(reader, i, &batch, &err) == 0)
                add_kernels(&r, &batch, f + 1);
        if (reader) trace_set_give(readers, reader);
    }
    trace_batch_free(&batch);
    free(r.streams.v);
    return r.spans;
}

/* ---- evidence of one rank */

static int by_kind(const void *pa, const void *pb) {
    const struct span *a = pa, *b = pb;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    return (a->stream > b->stream) - (a->stream < b->stream);
}

/* Returns the negative log-likelihood of a deviation x under a Cauchy distribution, up to a constant. */
static double surprise(double x, double spread) { return log1p(x / spread * (x / spread)); }

static void add_place(struct places *out, size_t first, const struct place *p) {
    size_t least = first;
    size_t kept = out->n - first;
    for (size_t i = first; i < out->n; i++)
        if (out->v[i].evidence < out->v[least].evidence) least = i;
    if (kept < KEPT)
        vec_push(out, *p);
    else if (p->evidence > out->v[least].evidence)
        out->v[least] = *p;
}

static double tolerance(const struct step_window *w) { return TOLERANCE_NS + 3 * w->error_ns; }

/* Sets the part of the span in which the step may be; false: there is none. The span's end is after the
 * step. */
static bool find_place(const struct span *s, const struct step_window *w, struct place *out) {
    int64_t step = llround(w->step_ns);
    uint64_t end = s->end_ns - (uint64_t)step, latest = w->after_ns - (uint64_t)step;
    double slack = tolerance(w);
    out->from_ns = MAX(s->start_ns, w->before_ns);
    out->to_ns = MIN(end, latest);
    if (since(s->start_ns, end) < -slack || since(out->from_ns, out->to_ns) < -slack) return false;
    out->to_ns = MAX(out->from_ns, out->to_ns);
    return true;
}

struct duration_key {
    const double *sorted;
    double ns;
};

static bool is_shorter(const void *arg, size_t i) {
    const struct duration_key *k = arg;
    return k->sorted[i] < k->ns;
}

/* Returns the distance of a duration to the second closest of n sorted durations; `own`: one of them is the
 * duration itself. Spans of one kind may have several typical durations, so the distance to their median
 * would be wrong. */
static double unusual(const double *sorted, size_t n, double ns, bool own) {
    size_t low = bisect(0, n, is_shorter, &(struct duration_key){ sorted, ns }), wanted = own ? 3 : 2;
    double distance = 0;
    for (size_t left = low, right = low; wanted; wanted--) { /* [left, right) are closer than the next one */
        double before = left > 0 ? ns - sorted[left - 1] : INFINITY;
        double after = right < n ? sorted[right] - ns : INFINITY;
        distance = fmin(before, after);
        if (before < after)
            left--;
        else
            right++;
    }
    return distance;
}

/* Sets evidence[i] of the spans, which are sorted by kind. NaN: the span cannot contain the step. */
static void weigh_spans(const struct spans *s, const struct step_window *w, double *evidence) {
    double *sorted = xmalloc((s->n + 1) * sizeof *sorted), spread = SPREAD_NS + w->error_ns;
    for (size_t i = 0, end; i < s->n; i = end) {
        for (end = i; end < s->n && s->v[end].kind == s->v[i].kind; end++)
            sorted[end - i] = since(s->v[end].start_ns, s->v[end].end_ns);
        stats_sort(sorted, end - i);
        for (size_t k = i; k < end; k++) {
            double ns = since(s->v[k].start_ns, s->v[k].end_ns);
            struct place ignored;
            evidence[k] = NAN;
            if (!find_place(&s->v[k], w, &ignored)) continue;
            evidence[k] = end - i < TYPICAL_LEAST
                              ? 0
                              : surprise(unusual(sorted, end - i, ns, true), spread) -
                                    surprise(unusual(sorted, end - i, ns - w->step_ns, false), spread);
        }
    }
    free(sorted);
}

/* Adds the most likely spans of every stream of a rank that has kernels in the window. */
static void add_rank(const struct rank_digest *d, const struct step_window *w, struct trace_set *readers,
                     struct places *out) {
    struct spans s = read_spans(d, w, readers);
    double *evidence = xmalloc((s.n + 1) * sizeof *evidence);
    if (s.n) qsort(s.v, s.n, sizeof *s.v, by_kind);
    weigh_spans(&s, w, evidence);
    bool *done = xcalloc(s.n + 1, sizeof *done);
    for (size_t i = 0; i < s.n; i++) {
        size_t first = out->n;
        if (done[i]) continue;
        for (size_t k = i; k < s.n; k++) {
            if (s.v[k].stream != s.v[i].stream) continue;
            done[k] = true;
            struct place p = { .evidence = evidence[k], .stream = out->streams };
            if (!isnan(evidence[k]) && find_place(&s.v[k], w, &p)) add_place(out, first, &p);
        }
        out->streams += out->n > first;
    }
    free(done);
    free(evidence);
    free(s.v);
}

/* ---- all ranks together */

/* Returns the sum over all streams of the evidence for a step at this time. */
static double evidence_at(const struct places *p, uint64_t at_ns, double slack_ns, double *best) {
    double sum = 0;
    for (size_t i = 0; i < p->streams; i++) best[i] = NO_SPAN_EVIDENCE;
    for (size_t i = 0; i < p->n; i++) {
        const struct place *v = &p->v[i];
        if (at_ns < v->from_ns || since(at_ns, v->to_ns) < -slack_ns) continue;
        best[v->stream] = fmax(best[v->stream], v->evidence);
    }
    for (size_t i = 0; i < p->streams; i++) sum += best[i];
    return sum;
}

double step_place_find(const struct rank_digest *const *digests, size_t n, const struct step_window *w,
                       struct trace_set *readers, uint64_t *at_ns) {
    struct places p = { 0 };
    double most = -INFINITY;
    for (size_t i = 0; i < n && i < RANKS_READ; i++) add_rank(digests[i], w, readers, &p);
    double *best = xmalloc((p.streams + 1) * sizeof *best);
    for (size_t i = 0; i < p.n; i++) {
        double evidence = evidence_at(&p, p.v[i].from_ns, tolerance(w) / 2, best);
        if (evidence <= most) continue;
        most = evidence;
        *at_ns = p.v[i].from_ns;
    }
    double mean = p.streams ? most / (double)p.streams : -INFINITY;
    free(best);
    free(p.v);
    return mean;
}
