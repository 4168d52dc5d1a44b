#include "engine/compute/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
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
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
static bool has_avx512vnni(void) { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }
static bool has_avx512bf16(void) {
    unsigned a, b, c, d;
    return has_avx512vnni() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}
#if defined(__linux__)
/* A process must request the tile registers from Linux before it uses them. */
static bool has_amx(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    return has_avx512bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1) &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#else
static bool has_amx(void) { return false; }
#endif

/* On Intel CPUs, AVX-512 multiplies as many floats as bf16 numbers per cycle, and rounding to bf16 costs
 * extra time: prefill was 25% slower. There, only AMX makes bf16 faster. */
static bool prefers_avx512bf16(void) { return has_avx512bf16() && __builtin_cpu_is("amd"); }
#endif
static bool always(void) { return true; }

/* In order of preference. */
static const struct {
    const struct kernels *table;
    bool (*usable)(void), (*preferred)(void);
} choices[] = {
#if defined(__x86_64__)
    { &kernels_amx, has_amx, has_amx },
    { &kernels_avx512bf16, has_avx512bf16, prefers_avx512bf16 },
    { &kernels_avx512vnni, has_avx512vnni, has_avx512vnni },
    { &kernels_avx512, has_avx512, has_avx512 },
    { &kernels_avx2, has_avx2, has_avx2 },
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
