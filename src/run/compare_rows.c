/* Compares the stages and figures of two sides. The statistical unit is the process (base/difference.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/difference.h"
#include "base/stats.h"
#include "base/util.h"
#include "base/vec.h"
#include "run/compare_internal.h"

/* ---- processes of a side */

struct process {
    size_t run;
    uint32_t number; /* within the run, from 1 */
};
struct processes {
    struct process *v;
    size_t n, cap;
};

static bool has_process(const struct processes *p, size_t run, uint32_t number) {
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].run == run && p->v[i].number == number) return true;
    return false;
}

/* A run that does not number its processes counts as one process. */
static struct processes processes_of(const struct compare_side *side) {
    struct processes p = { 0 };
    for (size_t run = 0; run < side->n; run++) {
        const struct saved_metrics *m = side->runs[run];
        for (size_t i = 0; i < m->nrepeats; i++)
            if (!has_process(&p, run, m->repeats[i].process))
                vec_push(&p, ((struct process){ run, m->repeats[i].process }));
        if (!m->nrepeats) vec_push(&p, ((struct process){ run, 1 }));
    }
    return p;
}

/* ---- values of a row */

/* Values of one run: its repeats. If the stage was not timed: the steps of the trace, or one time. */
struct values {
    double *v; /* [n], owned */
    size_t n;
    bool repeats; /* v[i] belongs to repeat i */
};

/* A row on one side. */
struct sample {
    double *medians; /* [processes], owned; NaN: no value */
    size_t n;        /* number of values */
    size_t with;     /* processes with a value */
    double min, max, cv;
};

/* Adds the medians of the processes of one run. */
static void add_run(struct sample *s, const struct processes *p, size_t run, const struct saved_metrics *m,
                    const struct values *x) {
    bool numbered = x->repeats && m->nrepeats == x->n;
    double *of_process = xcalloc(x->n + 1, sizeof *of_process);
    bool first = true;
    for (size_t k = 0; k < p->n; k++) {
        size_t n = 0;
        if (p->v[k].run != run) continue;
        for (size_t i = 0; i < x->n; i++)
            if (numbered ? m->repeats[i].process == p->v[k].number : first) of_process[n++] = x->v[i];
        first = false;
        struct stats st = stats_of_sorting(of_process, n);
        s->medians[k] = st.median;
        s->n += st.n;
        s->with += st.n > 0;
        s->min = fmin(s->min, st.min);
        s->max = fmax(s->max, st.max);
    }
    s->cv = fmax(s->cv, stats_grouped_cv(x->v, numbered ? m->inputs : NULL, x->n));
    free(of_process);
}

typedef struct values (*values_of)(const struct saved_metrics *m, const void *row);

static struct sample sample_of(const struct compare_side *side, const struct processes *p, values_of get,
                               const void *row) {
    struct sample s = { .medians = xcalloc(p->n + 1, sizeof *s.medians), .min = NAN, .max = NAN, .cv = NAN };
    for (size_t i = 0; i < p->n; i++) s.medians[i] = NAN;
    for (size_t run = 0; run < side->n; run++) {
        struct values x = get(side->runs[run], row);
        add_run(&s, p, run, side->runs[run], &x);
        free(x.v);
    }
    return s;
}

static struct values stage_values(const struct saved_metrics *m, const void *row) {
    const struct compare_row *r = row;
    const json_t *o = compare_find_stage(jsonr_array(m->root, "stages"), r->name, r->parent);
    struct values x = { NULL, 0, true };
    if (!o) return x;
    x.v = jsonr_numbers(jsonr_array(o, "repeats_ms"), &x.n);
    if (stats_of(x.v, x.n).n || isnan(jsonr_number(o, "time_ms"))) return x;
    free(x.v);
    x.repeats = false;
    x.v = jsonr_numbers(jsonr_array(json_object_get(o, "trace"), "steps_ms"), &x.n);
    if (x.n > 1) return x;
    free(x.v);
    x.v = xcalloc(1, sizeof *x.v);
    x.v[0] = jsonr_number(o, "time_ms");
    x.n = 1;
    return x;
}

static struct values figure_values(const struct saved_metrics *m, const void *row) {
    struct values x = { NULL, 0, true };
    for (size_t i = 0; i < m->nfigures; i++) {
        const struct run_figure *f = &m->figures[i];
        if (strcmp(f->key, row) != 0) continue;
        x.v = xcalloc(f->n + 1, sizeof *x.v);
        for (size_t k = 0; k < f->n; k++) x.v[k] = f->values[k];
        x.n = f->n;
        break;
    }
    return x;
}

/* ---- the rows */

struct pending { /* a row that is not tested yet */
    struct compare_row row;
    struct sample a, b;
    bool figure, larger_is_better;
};
struct rows {
    const struct compare_side *a, *b;
    const struct stop *stop;
    struct processes pa, pb;
    struct {
        struct pending *v;
        size_t n, cap;
    } list;
};

static void add_row(struct rows *rows, const struct compare_row *row, values_of get, const void *key) {
    struct pending p = { .row = *row, .a = sample_of(rows->a, &rows->pa, get, key) };
    p.b = sample_of(rows->b, &rows->pb, get, key);
    vec_push(&rows->list, p);
}

static bool is_wanted_stage(const json_t *o) {
    return jsonr_text(o, "name") && !json_is_true(json_object_get(o, "outside"));
}

static bool is_listed(const struct rows *rows, const struct compare_row *r) {
    for (size_t i = 0; i < rows->list.n; i++)
        if (compare_same(rows->list.v[i].row.name, r->name) &&
            compare_same(rows->list.v[i].row.parent, r->parent))
            return true;
    return false;
}

static bool side_has_stage(const struct compare_side *side, const struct compare_row *r) {
    for (size_t i = 0; i < side->n; i++) {
        const json_t *o = compare_find_stage(jsonr_array(side->runs[i]->root, "stages"), r->name, r->parent);
        if (o && is_wanted_stage(o)) return true;
    }
    return false;
}

static void add_stages(struct rows *rows, const struct compare_side *side) {
    for (size_t run = 0; run < side->n; run++) {
        const json_t *stages = jsonr_array(side->runs[run]->root, "stages");
        for (size_t i = 0; i < json_array_size(stages) && !stop_now(rows->stop); i++) {
            const json_t *o = json_array_get(stages, i);
            struct compare_row r = { .name = jsonr_text(o, "name"), .parent = jsonr_text(o, "parent") };
            if (!is_wanted_stage(o) || is_listed(rows, &r)) continue;
            r.unit = "ms";
            r.verdict = !side_has_stage(rows->a, &r)   ? COMPARE_ONLY_B
                        : !side_has_stage(rows->b, &r) ? COMPARE_ONLY_A
                                                       : COMPARE_UNKNOWN;
            add_row(rows, &r, stage_values, &r);
        }
    }
}

static bool has_figure(const struct saved_metrics *m, const char *key) {
    for (size_t i = 0; i < m->nfigures; i++)
        if (strcmp(m->figures[i].key, key) == 0) return true;
    return false;
}

static void add_figures(struct rows *rows) {
    const struct saved_metrics *m = rows->a->runs[0];
    for (size_t i = 0; i < m->nfigures && !stop_now(rows->stop); i++) {
        const struct run_figure *f = &m->figures[i];
        if (!has_figure(rows->b->runs[0], f->key)) continue;
        struct compare_row r = { .name = f->name, .unit = f->unit ? f->unit : "" };
        r.verdict = COMPARE_UNKNOWN;
        add_row(rows, &r, figure_values, f->key);
        rows->list.v[rows->list.n - 1].figure = true;
        rows->list.v[rows->list.n - 1].larger_is_better = f->larger_is_better;
    }
}

/* ---- verdicts */

/* A count that does not vary on either side needs no statistics. */
static bool are_different_counts(const struct pending *p) {
    return strcmp(p->row.unit, "tokens") == 0 && p->a.min == p->a.max && p->b.min == p->b.max &&
           p->a.min != p->b.min;
}

static enum compare_verdict verdict_of(const struct pending *p, const struct difference_row *d) {
    if (p->row.verdict == COMPARE_ONLY_A || p->row.verdict == COMPARE_ONLY_B) return p->row.verdict;
    if (are_different_counts(p)) return COMPARE_DIFFERENT;
    switch (d->verdict) {
    case DIFFERENCE_UNKNOWN: return COMPARE_UNKNOWN;
    case DIFFERENCE_NONE: return COMPARE_SAME;
    case DIFFERENCE_CANNOT_TELL: return COMPARE_CANNOT_TELL;
    case DIFFERENCE_SHOWN: break;
    }
    /* More tokens are neither better nor worse. */
    if (strcmp(p->row.unit, "tokens") == 0) return COMPARE_DIFFERENT;
    return (d->change > 0) == p->larger_is_better ? COMPARE_FASTER : COMPARE_SLOWER;
}

static const char *reason_of(const struct compare_row *r, bool tested) {
    if (r->verdict != COMPARE_CANNOT_TELL) return NULL;
    if (tested) return "unstable";
    if (r->a_processes <= 1 && r->b_processes <= 1) return "one process per side; run with processes=5";
    return "too few processes; run with processes=5";
}

static void finish_row(struct pending *p, const struct difference_row *d) {
    struct compare_row *r = &p->row;
    r->a = d->a_median;
    r->b = d->b_median;
    r->change = d->change;
    r->low = d->low;
    r->high = d->high;
    r->difference = r->b - r->a;
    r->difference_low = r->a * r->low;
    r->difference_high = r->a * r->high;
    r->b_low = r->a * (1 + r->low);
    r->b_high = r->a * (1 + r->high);
    r->believable = d->believable;
    r->p = d->p;
    r->unstable = d->unstable;
    r->a_repeats = p->a.n;
    r->b_repeats = p->b.n;
    r->a_processes = p->a.with;
    r->b_processes = p->b.with;
    r->verdict = verdict_of(p, d);
    r->reason = reason_of(r, !isnan(d->p));
}

/* A process and the start of its run. */
struct started {
    uint64_t run_ns;
    uint32_t number;
    size_t index; /* processes of A first, then B */
};

static int by_start(const void *a, const void *b) {
    const struct started *x = a, *y = b;
    if (x->run_ns != y->run_ns) return x->run_ns < y->run_ns ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Fills one entry per process. Returns false if the start of a run is unknown. */
static bool list_started(const struct compare_side *side, const struct processes *p, size_t first,
                         struct started *out) {
    bool known = true;
    for (size_t i = 0; i < p->n; i++) {
        const json_t *run = json_object_get(side->runs[p->v[i].run]->root, "run");
        double ns = jsonr_number(run, "started_unix_ns");
        bool valid = ns > 0 && ns < 0x1p63;
        known = known && valid;
        out[i] = (struct started){ valid ? (uint64_t)ns : 0, p->v[i].number, first + i };
    }
    return known;
}

/* Sets the block of each process (base/difference.h). Returns the number of blocks; 1 if a start is
 * unknown. */
static size_t find_blocks(const struct rows *rows, uint32_t *block) {
    size_t na = rows->pa.n, n = na + rows->pb.n, nblocks = 1;
    struct started *v = xcalloc(n + 1, sizeof *v);
    bool *is_b = xcalloc(n + 1, sizeof *is_b);
    uint32_t *in_order = xcalloc(n + 1, sizeof *in_order);
    bool known = list_started(rows->a, &rows->pa, 0, v);
    if (list_started(rows->b, &rows->pb, na, v + na) && known) {
        qsort(v, n, sizeof *v, by_start);
        for (size_t i = 0; i < n; i++) is_b[i] = v[i].index >= na;
        nblocks = difference_blocks(is_b, n, in_order);
        for (size_t i = 0; i < n; i++) block[v[i].index] = in_order[i];
    }
    free(in_order);
    free(is_b);
    free(v);
    return nblocks;
}

/* Tests all rows together, so that the significance level applies to the whole table. */
static void judge_rows(struct rows *rows, struct comparison *c) {
    struct difference_row *d = xcalloc(rows->list.n + 1, sizeof *d);
    for (size_t i = 0; i < rows->list.n; i++) {
        const struct sample *a = &rows->list.v[i].a, *b = &rows->list.v[i].b;
        d[i] = (struct difference_row){ .a = a->medians,
                                        .b = b->medians,
                                        .a_min = a->min,
                                        .a_max = a->max,
                                        .b_min = b->min,
                                        .b_max = b->max,
                                        .a_cv = a->cv,
                                        .b_cv = b->cv };
    }
    uint32_t *block = xcalloc(rows->pa.n + rows->pb.n + 1, sizeof *block);
    c->blocks = find_blocks(rows, block);
    if (!stop_now(rows->stop)) difference_test(d, rows->list.n, rows->pa.n, rows->pb.n, block, rows->stop);
    free(block);
    for (size_t i = 0; i < rows->list.n; i++) {
        finish_row(&rows->list.v[i], &d[i]);
        if (rows->list.v[i].figure)
            vec_push(&c->figures, rows->list.v[i].row);
        else
            vec_push(&c->stages, rows->list.v[i].row);
    }
    free(d);
}

bool compare_rows(const struct compare_side *a, const struct compare_side *b, const struct stop *stop,
                  struct comparison *c) {
    struct rows rows = { .a = a, .b = b, .stop = stop, .pa = processes_of(a), .pb = processes_of(b) };
    add_stages(&rows, a);
    add_stages(&rows, b);
    add_figures(&rows);
    c->a_processes = rows.pa.n;
    c->b_processes = rows.pb.n;
    judge_rows(&rows, c);
    for (size_t i = 0; i < rows.list.n; i++) {
        free(rows.list.v[i].a.medians);
        free(rows.list.v[i].b.medians);
    }
    free(rows.list.v);
    free(rows.pa.v);
    free(rows.pb.v);
    return !stop_now(stop);
}
