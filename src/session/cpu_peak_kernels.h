/* Inner loops of cpu_peak.c: matrix products and the memory read, once per instruction set. */
#ifndef SESSION_CPU_PEAK_KERNELS_H
#define SESSION_CPU_PEAK_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define PANEL_M 6
#define PANEL_N 32 /* two 16-float vectors (AVX-512) or four 8-float ones */

/* Sizes of the matrix products of one thread: A [M][K] and B [K][N]. A is 192 x 256 floats (192 KiB, fits the
 * L2 cache), one panel of B is 256 x 32 (32 KiB, fits the L1 cache). */
enum { GEMM_M = 192, GEMM_N = 192, GEMM_K = 256 };

struct cpu_kernels {
    const char *name;
    /* c[6][32] += sum over k of the outer product of a[k][6] and b[k][32] */
    void (*panel)(const float *a, const float *b, float *c, unsigned k);
    uint64_t (*read)(const uint64_t *p, size_t n); /* reads all n words; n is a multiple of 64 */
};

const struct cpu_kernels *cpu_kernels_pick(void);

/* Products of bf16 numbers, which are added as floats. */
struct cpu_bf16 {
    const char *name;
    /* c[M][N] += a b. A word has two numbers that are neighbours in K: a[M * K / 2], b[N * K / 2], each in
     * the order in which the instructions read them. */
    void (*product)(const uint32_t *a, const uint32_t *b, float *c);
};
const struct cpu_bf16 *cpu_bf16_pick(void); /* NULL: this CPU has no such instructions */

#endif
