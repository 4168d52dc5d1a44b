/* Compares two sides: stages and figures tested over processes (base/difference.h), kernels by class,
 * operators, and the environment. A side is one or more runs. B is compared with A: a positive change means
 * that the value of B is larger.
 *     struct comparison c;
 *     compare_sides(&(struct compare_side){ a, na }, &(struct compare_side){ b, nb }, &c);
 *     compare_text(&c, COMPARE_TEXT, &out);
 *     compare_free(&c); */
#ifndef REPORT_COMPARE_H
#define REPORT_COMPARE_H

#include "base/strbuf.h"
#include "run/saved_metrics.h"

struct compare_side {
    struct saved_metrics *const *runs;
    size_t n; /* at least 1 */
};

enum compare_verdict {
    COMPARE_ONLY_A,
    COMPARE_ONLY_B,
    COMPARE_UNKNOWN,     /* one side has no value */
    COMPARE_SAME,        /* tested and not significant, or all values are equal */
    COMPARE_FASTER,      /* significantly faster; for figures that are not times: better */
    COMPARE_SLOWER,      /* significantly slower; for figures that are not times: worse */
    COMPARE_DIFFERENT,   /* significantly different, for figures that are neither good nor bad */
    COMPARE_CANNOT_TELL, /* too few processes, or unstable; see `reason` */
};
struct compare_row { /* a stage or a figure */
    const char *name, *parent, *unit;
    double a, b;      /* median over processes of each process's median over repeats, or the single value */
    double change;    /* b / a - 1 */
    double low, high; /* 95% interval of the change, valid for all rows together; NaN: not tested */
    double believable, p;
    size_t a_repeats, b_repeats, a_processes, b_processes; /* numbers of repeats and processes with a value */
    bool unstable;
    enum compare_verdict verdict;
    const char *reason; /* reason for COMPARE_CANNOT_TELL; else NULL */
};
/* Returns the verdict without the reason, such as "slower" or "cannot tell". */
const char *compare_verdict_name(const struct compare_row *r);

/* Kernels of one class, or an operator: the sum over a trace, averaged over the recorded runs of a side. */
struct compare_work {
    char *name;
    const char *category;
    double a_ns, b_ns, a_calls, b_calls; /* NaN: does not occur on this side */
    double change_ns;
};
struct compare_env {
    const char *key, *a, *b; /* NULL: this side has no value */
};

/* A finding of A that B does not have: its predicted saving (upper bound; median over the runs of A) and
 * the measured saving of its stage. A side has a finding if more than half of its runs with findings have
 * it. */
struct compare_promise {
    const char *stage, *rule;
    double bound_ms;
    double gain_ms, low_ms, high_ms; /* A - B with its 95% interval; positive: B is faster; NaN: not tested */
};

struct comparison {
    const char *a_name, *b_name; /* names of the first runs */
    size_t a_runs, b_runs, a_processes, b_processes;
    size_t a_recorded, b_recorded; /* runs with kernels or operators */
    /* number of blocks of processes that ran near each other; 1: the sides did not alternate
     * (base/difference.h) */
    size_t blocks;
    struct {
        struct compare_row *v;
        size_t n, cap;
    } stages, figures;
    struct {
        struct compare_work *v; /* sorted by the size of the change */
        size_t n, cap;
    } kernels, operators;
    struct {
        struct compare_env *v;
        size_t n, cap;
    } env;
    struct {
        struct compare_promise *v; /* in the order of A's findings */
        size_t n, cap;
    } promises;
    bool other_subject; /* the model, engine or device differs */
    bool other_work;    /* a common stage read or generated a different number of tokens */
    struct {
        char **v;
        size_t n, cap;
    } texts; /* private */
};

void compare_sides(const struct compare_side *a, const struct compare_side *b, struct comparison *c);
void compare_free(struct comparison *c);
bool compare_has_common_stage(const struct comparison *c); /* true if a stage has a time on both sides */
/* Returns the first top-level stage with a test result, or NULL. If NULL, *reason is the first `reason` of a
 * top-level stage; it may be NULL. */
const struct compare_row *compare_judged_stage(const struct comparison *c, const char **reason);
/* Returns the top-level stage with the worst significant slowdown above `allowed` (0.05: 5%), or NULL.
 * Compares the lower end of its interval with `allowed`, or the change itself if it has no interval. */
const struct compare_row *compare_regression(const struct comparison *c, double allowed);

enum compare_form { COMPARE_TEXT, COMPARE_MARKDOWN };
void compare_text(const struct comparison *c, enum compare_form form, struct strbuf *out);
void compare_json(const struct comparison *c, struct strbuf *out);

/* Formats of other tools. `allowed`: as in compare_regression; NaN: any significant slowdown is a failure. */
void compare_junit(const struct comparison *c, double allowed, struct strbuf *out);
void compare_github(const struct comparison *c, struct strbuf *out);
void compare_bencher(const struct comparison *c, struct strbuf *out);
void compare_mlflow(const struct comparison *c, const char *run_id, uint64_t timestamp_ms,
                    struct strbuf *out);

#endif
