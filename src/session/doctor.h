/* What this machine offers a profiler, check by check: found, missing or limited, and what to do about it.
 *     struct doctor d = { 0 };
 *     doctor_examine(&d, output_dir);
 *     for (size_t i = 0; i < d.n; i++) show(&d.v[i]);
 *     doctor_free(&d);
 * Nothing is changed and no GPU work is done. */
#ifndef SESSION_DOCTOR_H
#define SESSION_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

enum doctor_status { DOCTOR_OK, DOCTOR_LIMITED, DOCTOR_MISSING };

struct doctor_row {
    const char *check; /* "CUPTI"; borrowed */
    enum doctor_status status;
    bool needed;  /* by the native path: engine, collector and a place to write to */
    char *found;  /* what is there */
    char *remedy; /* NULL: nothing to do */
};
struct doctor {
    struct doctor_row *v;
    size_t n, cap;
};

void doctor_examine(struct doctor *d, const char *output_dir);
bool doctor_native_works(const struct doctor *d); /* nothing that is needed is missing */
void doctor_free(struct doctor *d);
const char *doctor_status_name(enum doctor_status s); /* "OK", "limited", "missing" */

#endif
