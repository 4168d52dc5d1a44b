#include "engine/compute/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__x86_64__)
/* Not every compiler accepts "f16c" in __builtin_cpu_supports(). */
static bool has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
static bool has_avx512vnni(void) { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }
#endif
static bool always(void) { return true; }

/* Best first. */
static const struct {
    const struct kernels *table;
    bool (*usable)(void);
} choices[] = {
#if defined(__x86_64__)
    { &kernels_avx512vnni, has_avx512vnni },
    { &kernels_avx512, has_avx512 },
    { &kernels_avx2, has_avx2 },
#endif
    { &kernels_portable, always },
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
        if (choices[i].usable()) k = choices[i].table;
    return k;
}
