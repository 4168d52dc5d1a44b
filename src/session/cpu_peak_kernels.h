/* Inner loops of cpu_peak.c: the matrix product and the memory read, once per instruction set. */
#ifndef SESSION_CPU_PEAK_KERNELS_H
#define SESSION_CPU_PEAK_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define PANEL_M 6
#define PANEL_N 32 /* two 16-float vectors (AVX-512) or four 8-float ones */

struct cpu_kernels {
    const char *name;
    /* c[6][32] += sum over k of the outer product of a[k][6] and b[k][32] */
    void (*panel)(const float *a, const float *b, float *c, unsigned k);
    uint64_t (*read)(const uint64_t *p, size_t n); /* reads all n words; n is a multiple of 64 */
};

const struct cpu_kernels *cpu_kernels_pick(void);

#endif
