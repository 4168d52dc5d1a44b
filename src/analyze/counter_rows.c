#include "analyze/counter_rows.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

struct active {
    uint32_t class;
    uint64_t end_ns;
};

struct sweep {
    const struct counter_fit_input *in;
    size_t next; /* kernel not yet started */
    struct {
        struct active *v;
        size_t n, cap;
    } active;
    double *share;     /* by class, of the current sample, ns; idle last */
    uint32_t *touched; /* classes with a share */
    size_t ntouched;
};

static void add_share(struct sweep *w, uint32_t class, double ns) {
    if (w->share[class] == 0) w->touched[w->ntouched++] = class;
    w->share[class] += ns;
}

static void start_kernels(struct sweep *w, uint64_t now) {
    const struct counter_fit_input *in = w->in;
    for (; w->next < in->nkernels && in->start_ns[w->next] <= now; w->next++)
        if (in->end_ns[w->next] > now)
            vec_push(&w->active, ((struct active){ in->class_of[w->next], in->end_ns[w->next] }));
}

static void end_kernels(struct sweep *w, uint64_t now) {
    for (size_t i = 0; i < w->active.n;)
        if (w->active.v[i].end_ns <= now)
            w->active.v[i] = w->active.v[--w->active.n];
        else
            i++;
}

/* The next moment at which the set of running kernels changes, at most `limit`. */
static uint64_t next_change(const struct sweep *w, uint64_t limit) {
    if (w->next < w->in->nkernels) limit = MIN(limit, w->in->start_ns[w->next]);
    for (size_t i = 0; i < w->active.n; i++) limit = MIN(limit, w->active.v[i].end_ns);
    return limit;
}

/* Splits [from, to) between the kernels that run and idle. */
static void share_out(struct sweep *w, uint64_t from, uint64_t to) {
    for (uint64_t now = from; now < to;) {
        end_kernels(w, now);
        start_kernels(w, now);
        uint64_t until = next_change(w, to);
        double ns = (double)(until - now);
        if (w->active.n == 0) add_share(w, w->in->nclasses, ns);
        for (size_t i = 0; i < w->active.n; i++) add_share(w, w->active.v[i].class, ns / (double)w->active.n);
        now = until;
    }
}

static void keep_row(struct sweep *w, struct counter_rows *rows, size_t sample, double length_ns) {
    vec_push(&rows->sample, sample);
    for (size_t i = 0; i < w->ntouched; i++) {
        uint32_t c = w->touched[i];
        vec_push(&rows->terms, ((struct counter_term){ c, (float)(w->share[c] / length_ns) }));
        w->share[c] = 0;
    }
    w->ntouched = 0;
    vec_push(&rows->first, rows->terms.n);
}

void counter_rows_make(const struct counter_fit_input *in, int64_t shift_ns, struct counter_rows *rows) {
    *rows = (struct counter_rows){ 0 };
    struct sweep w = { .in = in };
    uint64_t last_end = 0;
    w.share = xcalloc((size_t)in->nclasses + 1, sizeof *w.share);
    w.touched = xcalloc((size_t)in->nclasses + 1, sizeof *w.touched);
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
    free(w.touched);
    free(w.active.v);
}

void counter_rows_free(struct counter_rows *rows) {
    free(rows->terms.v);
    free(rows->first.v);
    free(rows->sample.v);
}
