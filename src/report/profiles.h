/* ncu.json of a run folder: what Nsight Compute measured of single kernels (`inferprof import --into`,
 * `run --ncu`). The file is taken as untrusted: what has the wrong type is unknown.
 *     struct report_profiles *p = report_profiles_load(dir, &problems);     -- NULL: none, or it says in problems why not
 *     input.profiles = p->v, input.nprofiles = p->n;
 *     report_profiles_close(p);                                             -- after the analysis, which borrows */
#ifndef REPORT_PROFILES_H
#define REPORT_PROFILES_H

#include <jansson.h>

#include "analyze/kernel_profile.h"
#include "base/err.h"
#include "base/strlist.h"

struct report_profiles {
    json_t *root;
    struct kernel_profile *v;
    size_t n;
};

struct report_profiles *report_profiles_load(const char *dir, struct strlist *problems);
struct report_profiles *report_profiles_parse(const char *text, size_t n, const char *what, struct err *err);
void report_profiles_close(struct report_profiles *p); /* NULL is fine */

#endif
