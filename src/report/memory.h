/* What metrics.json remembers of a run, read back. The file is taken as untrusted: what has the wrong type
 * is unknown.
 *     struct report_memory *m = report_memory_load(path, &err);           -- NULL: err
 *     report_memory_close(m);
 * Texts belong to the document and live until close. */
#ifndef REPORT_MEMORY_H
#define REPORT_MEMORY_H

#include <jansson.h>

#include "analyze/analyze.h"
#include "base/err.h"
#include "report/report.h"

struct input_json;
struct report_memory {
    json_t *root;
    struct report_figure *figures;
    size_t nfigures;
    struct report_kv *env;
    size_t nenv;
    const char **assumptions, **problems;
    size_t nassumptions, nproblems;
    struct report_answer *answers;
    size_t nanswers;
    struct input_json
        *kept; /* the input of the analysis; NULL: it had no trace, or an older version wrote it */
    /* the same as far as the stages hold it: those that were timed, and those with a cost */
    struct analyze_timing *timings;
    struct analyze_work *works; /* [ntimings] */
    size_t ntimings;
    struct analyze_cost *costs;
    size_t ncosts;
};

struct report_memory *report_memory_load(const char *path, struct err *err);
struct report_memory *report_memory_parse(const char *text, size_t n, const char *what, struct err *err);
void report_memory_close(struct report_memory *m);
void report_memory_fill(const struct report_memory *m,
                        struct report_input *in);                        /* run, device, figures, env... */
struct analyze_input report_memory_input(const struct report_memory *m); /* borrows from m */
/* Drops the floors, which hold for the peaks of that time only; FLOPs and bytes hold for any. */
void report_memory_drop_floors(struct report_memory *m);

/* Members with their types checked: NULL, NaN or an empty array when there is no such. */
const char *memory_text(const json_t *object, const char *key);
double memory_number(const json_t *object, const char *key);
const json_t *memory_array(const json_t *object,
                           const char *key);            /* never NULL; json_array_size() may be 0 */
double *memory_numbers(const json_t *array, size_t *n); /* null and all else: NaN. Caller frees */

#endif
