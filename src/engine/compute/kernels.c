#include "engine/compute/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu_features.h"
#include "base/util.h"

#if defined(__x86_64__)
/* On Intel CPUs, AVX-512 multiplies as many floats as bf16 numbers per cycle, and rounding to bf16 costs
 * extra time: prefill was 25% slower. There, only AMX makes bf16 faster. */
static bool prefers_avx512bf16(void) { return cpu_has_avx512bf16() && __builtin_cpu_is("amd"); }
#endif
static bool always(void) { return true; }

/* In order of preference. */
static const struct {
    const struct kernels *table;
    bool (*usable)(void), (*preferred)(void);
} choices[] = {
#if defined(__x86_64__)
    { &kernels_amx, cpu_has_amx, cpu_has_amx },
    { &kernels_avx512bf16, cpu_has_avx512bf16, prefers_avx512bf16 },
    { &kernels_avx512vnni, cpu_has_avx512vnni, cpu_has_avx512vnni },
    { &kernels_avx512, cpu_has_avx512, cpu_has_avx512 },
    { &kernels_avx2, cpu_has_avx2, cpu_has_avx2 },
#endif
    { &kernels_portable, always, always },
};

const struct kernels *kernels_named(const char *name) {
    for (size_t i = 0; i < COUNTOF(choices); i++)
        if (strcmp(choices[i].table->name, name) == 0 && choices[i].usable()) return choices[i].table;
    return NULL;
}

const struct kernels *kernels_pick(void) {
    const char *wish = getenv("INFERPROF_ISA");
    const struct kernels *k = wish ? kernels_named(wish) : NULL;
    for (size_t i = 0; !k && i < COUNTOF(choices); i++)
        if (choices[i].preferred()) k = choices[i].table;
    return k;
}
