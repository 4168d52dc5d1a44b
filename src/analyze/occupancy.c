/* Theoretical occupancy: warps that fit on a multiprocessor at once / warps that it supports, from the
 * block's threads, registers and shared memory. Registers are allocated per warp in units of 256, shared
 * memory in units of 128 bytes, plus 1 KiB per block reserved by the system from compute capability 8.0
 * on. */
#include <math.h>

#include "analyze/internal.h"
#include "base/util.h"

#define REGISTER_UNIT 256
#define SMEM_UNIT 128

static uint64_t round_up(uint64_t v, uint64_t unit) { return (v + unit - 1) / unit * unit; }

double occupancy_theoretical(const struct timeline_device *d, const struct timeline_shape *s,
                             enum analysis_limiter *limiter, uint32_t *blocks_per_sm) {
    uint64_t threads = (uint64_t)s->block[0] * s->block[1] * s->block[2];
    uint64_t warp = d->warp_size ? d->warp_size : 32, warps = (threads + warp - 1) / warp;
    *limiter = ANALYSIS_LIMIT_UNKNOWN;
    *blocks_per_sm = 0;
    if (d->is_cpu || !threads || !d->max_threads_per_sm) return NAN;
    uint64_t max_warps = d->max_threads_per_sm / warp, blocks = max_warps / warps;
    *limiter = ANALYSIS_LIMIT_WARPS;
    if (d->max_blocks_per_sm && d->max_blocks_per_sm < blocks) {
        blocks = d->max_blocks_per_sm;
        *limiter = ANALYSIS_LIMIT_BLOCKS;
    }
    if (s->registers && d->regs_per_sm) {
        uint64_t fit = d->regs_per_sm / (round_up(s->registers * warp, REGISTER_UNIT) * warps);
        if (fit < blocks) {
            blocks = fit;
            *limiter = ANALYSIS_LIMIT_REGISTERS;
        }
    }
    uint64_t smem = (uint64_t)s->static_smem_bytes + s->dynamic_smem_bytes;
    if (smem && d->smem_per_sm_bytes) {
        uint64_t fit = d->smem_per_sm_bytes / round_up(smem + (d->cc_major >= 8 ? 1024 : 0), SMEM_UNIT);
        if (fit < blocks) {
            blocks = fit;
            *limiter = ANALYSIS_LIMIT_SMEM;
        }
    }
    *blocks_per_sm = (uint32_t)MIN(blocks, UINT32_MAX);
    return blocks ? (double)(blocks * warps) / (double)max_warps : NAN; /* the kernel ran: a limit is wrong */
}
