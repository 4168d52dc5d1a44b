/* Reads ncu.json of a run folder: Nsight Compute's measurements of single kernels. The file is untrusted:
 * members of the wrong type are unknown.
 *     struct ncu_profiles *p = ncu_profiles_load(dir, &warnings);   -- NULL: none, or see warnings
 *     input.profiles = p->v;
 *     input.nprofiles = p->n;
 *     ncu_profiles_close(p);                                        -- only after the analysis was freed */
#ifndef RUN_NCU_PROFILES_H
#define RUN_NCU_PROFILES_H

#include <jansson.h>

#include "analyze/kernel_profile.h"
#include "base/err.h"
#include "base/strlist.h"

struct ncu_profiles {
    json_t *root;
    struct kernel_profile *v;
    size_t n;
};

struct ncu_profiles *ncu_profiles_load(const char *dir, struct strlist *warnings);
struct ncu_profiles *ncu_profiles_parse(const char *text, size_t n, const char *what, struct err *err);
void ncu_profiles_close(struct ncu_profiles *p); /* NULL is fine */

#endif
