#include "collect/nvtx_own.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* Accepts 1 to 9 digits only. */
static bool parse_count(const char *text, double *count) {
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || text[digits]) return false;
    *count = (double)strtoul(text, NULL, 10);
    return true;
}

bool nvtx_own_split(const char *text, struct nvtx_own_text *out) {
    static const char *const words[] = { [NVTX_OWN_STAGE] = "stage ",
                                         [NVTX_OWN_MODULE] = "module ",
                                         [NVTX_OWN_OP] = "op ",
                                         [NVTX_OWN_CONSUMED] = "consumed ",
                                         [NVTX_OWN_MADE] = "made " };
    size_t prefix = strlen(NVTX_OWN_DOMAIN ":");
    if (strncmp(text, NVTX_OWN_DOMAIN ":", prefix) != 0) return false;
    for (unsigned k = NVTX_OWN_STAGE; k < COUNTOF(words); k++) {
        size_t n = strlen(words[k]);
        if (strncmp(text + prefix, words[k], n) != 0) continue;
        *out = (struct nvtx_own_text){ (enum nvtx_own)k, text + prefix + n, (double)NAN };
        return k < NVTX_OWN_CONSUMED ? *out->name != '\0' : parse_count(out->name, &out->count);
    }
    return false;
}
