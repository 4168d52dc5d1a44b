/* The contents of metrics.json. The file is untrusted: members of the wrong type are unknown.
 *     struct saved_metrics *m = saved_metrics_load(path, &err);           -- NULL: err
 *     saved_metrics_close(m);
 * Texts belong to the document and are valid until close. */
#ifndef RUN_SAVED_METRICS_H
#define RUN_SAVED_METRICS_H

#include <jansson.h>

#include "analyze/analyze.h"
#include "base/err.h"
#include "base/jsonr.h"
#include "run/info.h"

struct saved_input;
struct saved_metrics {
    json_t *root;
    struct run_figure *figures;
    size_t nfigures;
    struct run_kv *env;
    size_t nenv;
    const char **assumptions, **warnings;
    size_t nassumptions, nwarnings;
    struct run_answer *answers;
    size_t nanswers;
    struct run_repeat *repeats; /* timed repeats; older files: empty */
    size_t nrepeats;
    /* NULL: no trace, or a file of an older version */
    struct saved_input *kept;
    /* From the stages of the document: timed stages, and stages with a cost. */
    struct analyze_timing *timings;
    struct analyze_work *works; /* [ntimings] */
    uint32_t *inputs;           /* [nrepeats]: index of the input */
    size_t ntimings;
    struct analyze_cost *costs;
    size_t ncosts;
};

struct saved_metrics *saved_metrics_load(const char *path, struct err *err);
/* For a file of an unknown person: refuses a document that needs much memory or time. Accepts at most 8 MiB,
 * 250,000 values, 20,000 repeats and 1,000 processes. The largest document of our tests has 1.1 MB and 35,000
 * values. *values: the number of values; may be NULL. */
struct saved_metrics *saved_metrics_load_untrusted(const char *path, size_t *values, struct err *err);
struct saved_metrics *saved_metrics_parse(const char *text, size_t n, const char *what, struct err *err);
void saved_metrics_close(struct saved_metrics *m);
/* Fills run, device, figures, environment, answers and texts. */
void saved_metrics_fill(const struct saved_metrics *m, struct run_info *in);
struct analyze_input saved_metrics_input(const struct saved_metrics *m); /* borrows from m */
/* Drops roofline times and peaks, because the user gives other peaks. FLOPs and bytes stay. */
void saved_metrics_drop_floors(struct saved_metrics *m);

#endif
