/* A hand-made run: a small timeline and an analysis with known numbers, malicious names and unknown
 * values, for tests of the written files. */
#ifndef TESTS_UNIT_REPORT_SAMPLE_H
#define TESTS_UNIT_REPORT_SAMPLE_H

#include "analyze/analyze.h"
#include "report/report.h"
#include "run/info.h"

#define SAMPLE_HOSTILE "</script><img src=x onerror=alert(1)>|`'\"&\xe2\x80\xa8"

struct sample {
    struct timeline *timeline;
    struct analysis analysis;
    struct analyze_timing timings[4]; /* of tokenize nothing is known */
    struct analyze_input input;       /* the timings alone */
    struct run_figure figures[3];
    struct run_info in;
    struct view view;
    void *owned[16];
    size_t nowned;
};

/* `tokens` decode steps of `kernels` kernels each. */
void sample_init(struct sample *s, size_t tokens, size_t kernels);
void sample_free(struct sample *s);

#endif
