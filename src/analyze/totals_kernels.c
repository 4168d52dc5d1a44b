/* Kernels by name: the kernel classes of the analysis (name, geometry, device), summed per name. */
#include <string.h>

#include "analyze/totals_internal.h"

void totals_kernels(struct analysis_totals *t, const struct analysis *a) {
    for (size_t i = 0; i < a->nkernels; i++) {
        const struct analysis_kernel *k = &a->kernels[i];
        const char *name = *k->name ? k->name : "(name lost)";
        if (k->calls) sums_add_kernel(&t->sums, name, strlen(name), k->calls, (uint64_t)k->total_ns);
    }
}
