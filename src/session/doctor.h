/* Checks whether this machine can be profiled. The result of each check is OK, missing or limited.
 *     struct doctor d = { 0 };
 *     doctor_examine(&d, output_dir);
 *     for (size_t i = 0; i < d.n; i++) show(&d.v[i]);
 *     doctor_free(&d);
 * Changes nothing and runs no GPU work. */
#ifndef SESSION_DOCTOR_H
#define SESSION_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

enum doctor_status { DOCTOR_OK, DOCTOR_LIMITED, DOCTOR_MISSING };

struct doctor_row {
    const char *check; /* "CUPTI"; borrowed */
    enum doctor_status status;
    bool needed;  /* required to profile the native engine: the collector and the output folder */
    char *found;  /* result of the check */
    char *remedy; /* NULL: none needed */
};
struct doctor {
    struct doctor_row *v;
    size_t n, cap;
};

void doctor_examine(struct doctor *d, const char *output_dir);
bool doctor_native_works(const struct doctor *d); /* true if no needed check has the status "missing" */
void doctor_free(struct doctor *d);
const char *doctor_status_name(enum doctor_status s); /* "OK", "limited", "missing" */

#endif
