/* Compares two runs: stages with confidence intervals from their repeats, kernels by class, operators, and
 * the environment. A positive difference means that B takes longer than A.
 *     struct comparison c;
 *     compare_runs(a, b, &c);
 *     compare_text(&c, COMPARE_TEXT, &out);
 *     compare_free(&c); */
#ifndef REPORT_COMPARE_H
#define REPORT_COMPARE_H

#include "base/stats.h"
#include "base/strbuf.h"
#include "run/saved_metrics.h"

enum compare_verdict {
    COMPARE_ONLY_A,
    COMPARE_ONLY_B,
    COMPARE_UNKNOWN,  /* one of them has no value */
    COMPARE_SAME,     /* the interval contains 0: no significant difference */
    COMPARE_FASTER,   /* significant; better, if it is not a time */
    COMPARE_SLOWER,   /* significant; worse */
    COMPARE_UNTESTED, /* a difference, but too few repeats to test it */
};
struct compare_row { /* a stage or a figure over the repeats */
    const char *name, *parent, *unit;
    double a, b; /* medians, or the one value there is */
    struct stats a_stats, b_stats;
    struct stats_difference difference; /* of the means */
    double change;                      /* b / a - 1 of means, or of the values */
    enum compare_verdict verdict;
};
const char *compare_verdict_name(const struct compare_row *r);

struct compare_work { /* kernels of one class, or an operator: sums over the trace */
    char *name;
    const char *category;
    double a_ns, b_ns, a_calls, b_calls; /* NaN: not in this run */
    double change_ns;
};
struct compare_env {
    const char *key, *a, *b; /* NULL: not there */
};

/* A finding of A that B does not have: its predicted saving (upper bound), and the measured one of its
 * stage. */
struct compare_promise {
    const char *stage, *rule;
    double bound_ms;
    struct stats_difference gain; /* ms, A - B: larger is faster */
};

struct comparison {
    const char *a_name, *b_name;
    struct {
        struct compare_row *v;
        size_t n, cap;
    } stages, figures;
    struct {
        struct compare_work *v; /* by the size of the change */
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
    bool other_subject; /* another model, engine or device */
    bool other_work;    /* a stage of both read or made another number of tokens */
    struct {
        char **v;
        size_t n, cap;
    } texts; /* private */
};

void compare_runs(const struct saved_metrics *a, const struct saved_metrics *b, struct comparison *c);
void compare_free(struct comparison *c);
bool compare_has_common_stage(const struct comparison *c); /* with a time on both sides */
/* The top-level stage that became slower by the largest fraction above `allowed` (0.05: 5%), significantly if
 * there are repeats. NULL: none. */
const struct compare_row *compare_regression(const struct comparison *c, double allowed);

enum compare_form { COMPARE_TEXT, COMPARE_MARKDOWN };
void compare_text(const struct comparison *c, enum compare_form form, struct strbuf *out);
void compare_json(const struct comparison *c, struct strbuf *out);

#endif
