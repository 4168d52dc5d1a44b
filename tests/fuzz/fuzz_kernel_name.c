/* Names from traces: kernels (mangled or not) and range labels. The resulting names must have a bounded
 * length and must not be empty. */
#include <stdlib.h>
#include <string.h>

#include "analyze/kernel_name.h"
#include "analyze/stage_rules.h"
#include "base/die.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *name = xstrndup((const char *)data, size);
    struct kernel_name kn;
    struct stage_match m;
    kernel_name_parse(&kn, name);
    if (!kn.short_name[0] || strlen(kn.short_name) > 60) abort();
    kernel_name_free(&kn);
    if (stage_rules_match(NULL, name, TRACE_CATEGORY_USER, &m) && (m.tokens_in < 0 || m.tokens_out < 0))
        abort();
    free(name);
    return 0;
}
