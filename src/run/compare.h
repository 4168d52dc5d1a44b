/* Compares side B with side A; a side is one or more runs. Compares stages and figures with a test over
 * processes (base/difference.h), kernels and operators by name, and the environment.
 *     struct comparison c;
 *     compare_sides(&(struct compare_side){ a, na }, &(struct compare_side){ b, nb }, &c);
 *     compare_text(&c, COMPARE_TEXT, 0, &out);                    -- report/compare.h
 *     compare_free(&c); */
#ifndef RUN_COMPARE_H
#define RUN_COMPARE_H

#include "base/stop.h"
#include "run/saved_metrics.h"

struct compare_side {
    struct saved_metrics *const *runs;
    size_t n; /* at least 1 */
};

enum compare_verdict {
    COMPARE_ONLY_A,
    COMPARE_ONLY_B,
    COMPARE_UNKNOWN,     /* one side has no value */
    COMPARE_SAME,        /* not significant, or all values equal */
    COMPARE_FASTER,      /* significant; not a time: better */
    COMPARE_SLOWER,      /* significant; not a time: worse */
    COMPARE_DIFFERENT,   /* significant, but neither good nor bad */
    COMPARE_CANNOT_TELL, /* see `reason` */
};
struct compare_row { /* a stage or a figure */
    const char *name, *parent, *unit;
    double a, b;      /* Median over the processes. The value of a process is the median of its repeats. */
    double change;    /* b / a - 1 */
    double low, high; /* 95% interval of the change, for all rows together; NaN: not tested */
    double difference, difference_low, difference_high; /* b - a, with the interval */
    double b_low, b_high;                               /* a plus the interval of the difference */
    double believable, p;
    size_t a_repeats, b_repeats, a_processes, b_processes; /* with a value */
    bool unstable;
    enum compare_verdict verdict;
    const char *reason; /* reason for COMPARE_CANNOT_TELL; else NULL */
};
/* Returns true for a significant slowdown above `allowed` (0.05: 5%; NaN: 0). The end of the interval that is
 * nearer to 0 must exceed `allowed`; without an interval, the change must exceed it. */
bool compare_is_regression(const struct compare_row *r, double allowed);
/* Returns a text such as "slower" or "cannot tell". */
const char *compare_verdict_name(const struct compare_row *r);

/* A kernel class or an operator. Times and calls are sums over a trace, averaged over the recorded runs of a
 * side. */
struct compare_work {
    char *name;
    const char *category;
    double a_ns, b_ns, a_calls, b_calls; /* NaN: not on this side */
    double change_ns;
};
struct compare_env {
    const char *key, *a, *b; /* NULL: no value on this side */
};

/* A caveat of a run: a damaged or shortened trace, a busy machine. Unstable repeats are not among them; the
 * verdicts mention those. */
struct compare_caveat {
    const char *side, *text; /* side: "A", "B", "A and B" */
};

/* A finding of A that B does not have. A side has a finding if more than half of its runs with findings have
 * it. */
struct compare_promise {
    const char *stage, *rule;
    double bound_ms;
    double gain_ms, low_ms, high_ms; /* Measured saving A - B with its 95% interval; positive: B is faster;
                                      * NaN: not tested. */
};

struct comparison {
    const char *a_name, *b_name; /* names of the first runs */
    size_t a_runs, b_runs, a_processes, b_processes;
    size_t a_recorded, b_recorded; /* runs with kernels or operators */
    /* blocks of processes (base/difference.h); 1: the sides did not alternate */
    size_t blocks;
    struct {
        struct compare_row *v;
        size_t n, cap;
    } stages, figures;
    struct {
        struct compare_work *v; /* largest change first */
        size_t n, cap;
    } kernels, operators;
    struct {
        struct compare_env *v;
        size_t n, cap;
    } env;
    struct {
        struct compare_promise *v; /* order of A's findings */
        size_t n, cap;
    } promises;
    struct {
        struct compare_caveat *v;
        size_t n, cap;
    } caveats;
    bool other_subject; /* model, engine, device or ranks differ */
    bool other_work;    /* tokens of a common stage differ */
    struct {
        char **v;
        size_t n, cap;
    } texts; /* private */
};

void compare_sides(const struct compare_side *a, const struct compare_side *b, struct comparison *c);
/* Returns false if `stop` ended the comparison early. Call compare_free() in both cases. */
bool compare_sides_until(const struct compare_side *a, const struct compare_side *b, const struct stop *stop,
                         struct comparison *c);
void compare_free(struct comparison *c);
bool compare_has_common_stage(const struct comparison *c); /* true if a stage has times on both sides */
/* Returns the first top-level stage with a test result. If there is none, returns NULL, and *reason is the
 * first `reason` of a top-level stage, or NULL. */
const struct compare_row *compare_judged_stage(const struct comparison *c, const char **reason);
/* Returns the top-level stage with the largest change of those that are regressions, or NULL. */
const struct compare_row *compare_regression(const struct comparison *c, double allowed);

#endif
