/* The time of steps whose kernels were not recorded. While the kernels of a CUDA graph are recorded, its step
 * takes longer. If launches were counted while CUPTI was detached, the time from one launch to the next one
 * is the time of a step that was not disturbed. It becomes the time of the stage, like timed repeats do.
 *
 * Which launch belongs to which stage follows from the recorded steps: the first graph that a step launches
 * is the mark of its stage. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/stats.h"
#include "base/util.h"
#include "base/vec.h"

#define LEAST_STEPS 10u /* fewer unrecorded steps give no time */
/* A step that takes longer than this many medians contains other work or a pause: a prompt, whose kernels
 * are not in a graph, or waiting for a request. A step of llama.cpp that captures its graph again takes 4
 * medians; it is a step like the others. */
#define LONGEST_STEP 5.0

struct mark { /* a graph that is launched first in the steps of one stage */
    uint32_t process, graph, stage;
    uint32_t launches; /* per step */
    bool usable;       /* false: in the steps of several stages, or a different number of times per step */
    double requests;   /* sum over `steps` */
    size_t steps;
};

struct interval {
    double ns;
    uint32_t mark;
};

struct steps {
    struct {
        struct mark *v;
        size_t n, cap;
    } marks;
    struct {
        struct interval *v;
        size_t n, cap;
    } intervals;
};

static struct mark *find_mark(struct steps *s, uint32_t process, uint32_t graph) {
    for (size_t i = 0; i < s->marks.n; i++)
        if (s->marks.v[i].process == process && s->marks.v[i].graph == graph) return &s->marks.v[i];
    return NULL;
}

/* Returns the graph that the step launches first, and how often it launches this graph; 0: none. */
static uint32_t first_graph(const struct context *c, const struct recognised_step *s, uint32_t *launches) {
    const struct timeline_kernels *k = &c->tl->kernels;
    uint32_t graph = 0, launch = TIMELINE_NONE;
    *launches = 0;
    for (size_t i = s->first; k->graph && i < s->first + s->count; i++) {
        const struct recognised_work *w = &c->a->recognition.work[i];
        if (!w->is_kernel || !k->graph[w->index] || k->launch[w->index] == TIMELINE_NONE) continue;
        if (!graph) graph = k->graph[w->index];
        if (k->graph[w->index] != graph || k->launch[w->index] == launch) continue;
        launch = k->launch[w->index];
        ++*launches;
    }
    return graph;
}

static void add_step(struct context *c, struct steps *s, size_t step) {
    const struct recognised_step *r = &c->a->recognition.steps[step];
    uint32_t launches, graph = first_graph(c, r, &launches), stage = c->a->occurrences[step].stage;
    if (!graph) return;
    struct mark *m = find_mark(s, r->process, graph);
    if (!m) {
        vec_push(&s->marks, ((struct mark){ r->process, graph, stage, launches, true, 0, 0 }));
        m = &s->marks.v[s->marks.n - 1];
    }
    m->usable &= m->stage == stage && m->launches == launches;
    m->requests += r->requests;
    m->steps++;
}

/* Returns true if a step lies between the two replays: no attach, and no graph that the recorded steps do not
 * contain. */
static bool is_step(const struct timeline_replays *r, const uint32_t *marks, size_t from, size_t to) {
    bool one_graph = true;
    for (size_t i = from; i <= to; i++) {
        if (r->detach[i] != r->detach[from] || r->thread[i] != r->thread[from] || !r->graph[i]) return false;
        if (i < to && marks[i] != ANALYSIS_NONE) one_graph &= marks[i] == marks[from];
    }
    return one_graph && r->detach[from];
}

/* Returns the index of the replay that starts the next step; r->n: none. */
static size_t next_step(const struct timeline_replays *r, const uint32_t *marks, size_t from,
                        uint32_t launches) {
    size_t i = from + 1;
    for (; i < r->n; i++)
        if (marks[i] != ANALYSIS_NONE && --launches == 0) break;
    return i;
}

static void find_intervals(const struct timeline *tl, struct steps *s) {
    const struct timeline_replays *r = &tl->replays;
    uint32_t *marks = xmalloc((r->n + 1) * sizeof *marks);
    for (size_t i = 0; i < r->n; i++) {
        const struct mark *m = find_mark(s, tl->threads[r->thread[i]].process, r->graph[i]);
        marks[i] = m && m->usable ? (uint32_t)(m - s->marks.v) : ANALYSIS_NONE;
    }
    for (size_t i = 0, next; i < r->n; i = next) {
        next = i + 1;
        if (marks[i] == ANALYSIS_NONE) continue;
        size_t end = next_step(r, marks, i, s->marks.v[marks[i]].launches);
        if (end == r->n || !is_step(r, marks, i, end)) continue;
        vec_push(&s->intervals, ((struct interval){ (double)(r->start_ns[end] - r->start_ns[i]), marks[i] }));
        next = end;
    }
    free(marks);
}

static double median_of(const struct steps *s, uint32_t mark) {
    double *v = xmalloc((s->intervals.n + 1) * sizeof *v);
    size_t n = 0;
    for (size_t i = 0; i < s->intervals.n; i++)
        if (s->intervals.v[i].mark == mark) v[n++] = s->intervals.v[i].ns;
    double median = n ? stats_of_sorting(v, n).median : NAN;
    free(v);
    return median;
}

/* The batch of each step is that of the recorded steps with the same graph. */
static void set_timing(struct context *c, const struct steps *s, uint32_t stage, const double *medians) {
    size_t n = 0, left_out = 0;
    double *ms = analysis_alloc(c, s->intervals.n, sizeof *ms),
           *requests = analysis_alloc(c, s->intervals.n, sizeof *requests), left_out_ns = 0;
    bool known = true;
    for (size_t i = 0; i < s->intervals.n; i++) {
        const struct interval *v = &s->intervals.v[i];
        const struct mark *m = &s->marks.v[v->mark];
        if (m->stage != stage) continue;
        if (v->ns > LONGEST_STEP * medians[v->mark]) {
            left_out++;
            left_out_ns += v->ns;
            continue;
        }
        requests[n] = m->requests / (double)m->steps;
        known &= requests[n] > 0;
        ms[n++] = v->ns * 1e-6;
    }
    if (n < LEAST_STEPS) return;
    struct analyze_timing *t = analysis_alloc(c, 1, sizeof *t);
    *t = (struct analyze_timing){ .stage = c->a->stages[stage].path, .n = n, .ms = ms };
    if (known) t->tokens_out = requests;
    c->a->stages[stage].unrecorded = t;
    c->a->stages[stage].left_out_steps = left_out;
    c->a->stages[stage].left_out_ns = left_out_ns;
}

/* Returns why the unrecorded steps have no time. */
static const char *reason(const struct context *c) {
    const struct timeline_replays *r = &c->tl->replays;
    const char *slots = timeline_meta_value(c->tl, "replays.slots");
    size_t detached = 0;
    for (size_t i = 0; i < r->n; i++) detached += r->detach[i] > 0;
    if (r->n > detached && !detached)
        return "CUPTI stayed attached, which makes the other replays slower too";
    if (detached) return "too few of the other replays could be assigned to the step";
    if (slots && strncmp(slots, "replaced 0 ", 11) == 0)
        return "the other replays could not be counted: the program does not call the CUDA runtime through "
               "a shared library";
    return "the other replays were not counted";
}

/* Returns the time that cuptiFinalize() took, ns; 0: unknown. */
static double detach_ns(const struct timeline *tl) {
    const char *counts = timeline_meta_value(tl, "collector.counts");
    const char *word = counts ? strstr(counts, " detach_us ") : NULL;
    return word ? strtod(word + strlen(" detach_us "), NULL) * 1e3 : 0;
}

/* The overhead of recording, from the two kinds of steps. */
static void note_cost(struct context *c, struct analysis_stage *s) {
    const struct analyze_timing *t = s->unrecorded;
    double all_ms = 0, recorded = (double)s->occurrences;
    for (size_t i = 0; i < t->n; i++) all_ms += t->ms[i];
    double mean_ms = all_ms / (double)t->n, recorded_ms = s->wall_total_ns * 1e-6,
           detach_ms = detach_ns(c->tl) * 1e-6, more_ms = recorded_ms - recorded * mean_ms + detach_ms;
    s->watched_ms = (all_ms + recorded_ms + detach_ms) / ((double)t->n + recorded);
    if (!(more_ms > 0)) return;
    analysis_note(c, ANALYSIS_INFO,
                  "%s: recording %s steps and detaching CUPTI took %.3g ms: %.2g%% of the %.4g ms that all "
                  "counted steps would take without it; the mean of all steps of this run is %.4g ms",
                  s->path, analysis_count(c, s->occurrences), more_ms,
                  100 * more_ms / (all_ms + recorded * mean_ms), all_ms + recorded * mean_ms, s->watched_ms);
}

static void note_stage(struct context *c, struct analysis_stage *s) {
    if (s->unrecorded) note_cost(c, s);
    if (s->unrecorded && s->left_out_steps)
        analysis_note(c, ANALYSIS_INFO,
                      "%s: %s unrecorded steps (%.3g ms) took more than %.0f times as long as the median: "
                      "they contain other work or a pause and are in no figure",
                      s->path, analysis_count(c, s->left_out_steps), s->left_out_ns * 1e-6, LONGEST_STEP);
    if (s->unrecorded || !s->graph_launches || !c->tl->nwindows) return;
    s->recorded_only = reason(c);
    analysis_note(
        c, ANALYSIS_WARNING,
        "%s: its time is that of the recorded steps, which take longer than the others: %s. Run the "
        "program without inferprof to time it",
        s->path, s->recorded_only);
}

void analyze_unrecorded(struct context *c) {
    struct steps s = { 0 };
    if (!c->a->recognised || c->in->ntimings) return;
    for (size_t i = 0; i < c->a->recognition.nsteps; i++)
        if (!c->a->recognition.steps[i].warm_up) add_step(c, &s, i);
    find_intervals(c->tl, &s);
    double *medians = xmalloc((s.marks.n + 1) * sizeof *medians);
    for (uint32_t i = 0; i < s.marks.n; i++) medians[i] = median_of(&s, i);
    for (uint32_t i = 0; i < c->a->nstages; i++)
        if (!c->a->stages[i].outside && !c->a->stages[i].warm_up) {
            set_timing(c, &s, i, medians);
            note_stage(c, &c->a->stages[i]);
        }
    free(medians);
    free(s.marks.v);
    free(s.intervals.v);
}
