#include "analyze/counter_rows.h"

#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

#define EVEN_NS 0.01 /* in ns; smaller differences are rounding errors */

struct active {
    uint32_t class;
    uint64_t start_ns, end_ns;
    /* time of the kernel in the current sample, and the parts of it in its head and tail */
    double inside_ns, head_ns, tail_ns;
};

struct sweep {
    const struct counter_fit_input *in;
    uint64_t edge_ns;
    size_t next; /* first kernel not started */
    struct {
        struct active *v;
        size_t n, cap;
    } active;
    /* shares of the current sample in ns: classes, idle, then head and tail of each class */
    double *share;
    bool *has;         /* [index]: true if the index is in `touched` */
    uint32_t *touched; /* indices with a share */
    size_t ntouched;
};

static void add_share(struct sweep *w, uint32_t class, double ns) {
    if (!w->has[class]) w->touched[w->ntouched++] = class;
    w->has[class] = true;
    w->share[class] += ns;
}

static void start_kernels(struct sweep *w, uint64_t now) {
    const struct counter_fit_input *in = w->in;
    for (; w->next < in->nkernels && in->start_ns[w->next] <= now; w->next++)
        if (in->end_ns[w->next] > now)
            vec_push(&w->active, ((struct active){ .class = in->class_of[w->next],
                                                   .start_ns = in->start_ns[w->next],
                                                   .end_ns = in->end_ns[w->next] }));
}

/* Returns the length of head and tail, limited so that a middle part remains. */
static uint64_t edge_of(const struct sweep *w, const struct active *a) {
    return MIN(w->edge_ns, (a->end_ns - a->start_ns) * 2 / 5);
}

/* Adds, for head and tail, the difference between their time in the sample and an even share; 0 if the whole
 * kernel is in the sample. */
static void count_edges(struct sweep *w, struct active *a) {
    uint64_t length_ns = a->end_ns - a->start_ns, edge_ns = edge_of(w, a);
    if (edge_ns) {
        double even = a->inside_ns * (double)edge_ns / (double)length_ns;
        uint32_t head = counter_rows_head(w->in->nclasses, a->class);
        if (fabs(a->head_ns - even) > EVEN_NS) add_share(w, head, a->head_ns - even);
        if (fabs(a->tail_ns - even) > EVEN_NS) add_share(w, head + 1, a->tail_ns - even);
    }
    a->inside_ns = a->head_ns = a->tail_ns = 0;
}

static void end_kernels(struct sweep *w, uint64_t now) {
    for (size_t i = 0; i < w->active.n;)
        if (w->active.v[i].end_ns <= now) {
            count_edges(w, &w->active.v[i]);
            w->active.v[i] = w->active.v[--w->active.n];
        } else {
            i++;
        }
}

static double overlap(uint64_t a_from, uint64_t a_to, uint64_t b_from, uint64_t b_to) {
    uint64_t from = MAX(a_from, b_from), to = MIN(a_to, b_to);
    return to > from ? (double)(to - from) : 0;
}

static void add_active(struct sweep *w, struct active *a, uint64_t from, uint64_t to, double part) {
    double ns = part * (double)(to - from);
    add_share(w, a->class, ns);
    a->inside_ns += ns;
    a->head_ns += part * overlap(from, to, a->start_ns, a->start_ns + edge_of(w, a));
    a->tail_ns += part * overlap(from, to, a->end_ns - edge_of(w, a), a->end_ns);
}

/* Returns the next time at which the set of running kernels changes, at most `limit`. */
static uint64_t next_change(const struct sweep *w, uint64_t limit) {
    if (w->next < w->in->nkernels) limit = MIN(limit, w->in->start_ns[w->next]);
    for (size_t i = 0; i < w->active.n; i++) limit = MIN(limit, w->active.v[i].end_ns);
    return limit;
}

/* Splits [from, to) between the running kernels. If no kernel runs, the time counts as idle. */
static void share_out(struct sweep *w, uint64_t from, uint64_t to) {
    for (uint64_t now = from; now < to;) {
        end_kernels(w, now);
        start_kernels(w, now);
        uint64_t until = next_change(w, to);
        if (w->active.n == 0) add_share(w, w->in->nclasses, (double)(until - now));
        for (size_t i = 0; i < w->active.n; i++)
            add_active(w, &w->active.v[i], now, until, 1 / (double)w->active.n);
        now = until;
    }
    for (size_t i = 0; i < w->active.n; i++) count_edges(w, &w->active.v[i]);
}

static void keep_row(struct sweep *w, struct counter_rows *rows, size_t sample, double length_ns) {
    vec_push(&rows->sample, sample);
    for (size_t i = 0; i < w->ntouched; i++) {
        uint32_t c = w->touched[i];
        vec_push(&rows->terms, ((struct counter_term){ c, (float)(w->share[c] / length_ns) }));
        w->share[c] = 0;
        w->has[c] = false;
    }
    w->ntouched = 0;
    vec_push(&rows->first, rows->terms.n);
}

void counter_rows_make(const struct counter_fit_input *in, int64_t shift_ns, uint64_t edge_ns,
                       struct counter_rows *rows) {
    *rows = (struct counter_rows){ 0 };
    struct sweep w = { .in = in, .edge_ns = edge_ns };
    uint64_t last_end = 0;
    w.share = xcalloc(counter_rows_width(in->nclasses), sizeof *w.share);
    w.has = xcalloc(counter_rows_width(in->nclasses), sizeof *w.has);
    w.touched = xcalloc(counter_rows_width(in->nclasses), sizeof *w.touched);
    for (size_t i = 0; i < in->nkernels; i++) last_end = MAX(last_end, in->end_ns[i]);
    vec_push(&rows->first, 0);
    for (size_t i = 0; i < in->nsamples; i++) {
        uint64_t from = in->sample_start_ns[i] + (uint64_t)shift_ns,
                 to = in->sample_end_ns[i] + (uint64_t)shift_ns;
        if (in->nkernels == 0 || to <= in->start_ns[0] || from >= last_end || to <= from) continue;
        share_out(&w, from, to);
        keep_row(&w, rows, i, (double)(to - from));
    }
    free(w.share);
    free(w.has);
    free(w.touched);
    free(w.active.v);
}

void counter_rows_free(struct counter_rows *rows) {
    free(rows->terms.v);
    free(rows->first.v);
    free(rows->sample.v);
}
