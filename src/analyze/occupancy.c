/* Theoretical occupancy: warps that fit on a multiprocessor at once / warps that it supports, from the
 * block's threads, registers and shared memory. The rules are those of cuda_occupancy.h: registers are
 * allocated per warp in units of 256, in the part of the multiprocessor in which the warp runs. Shared memory
 * is allocated in units of 128 bytes, plus 1 KiB per block reserved by the system, from compute capability
 * 8.0 on; before, in units of 256 bytes. */
#include <math.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/util.h"

#define REGISTER_UNIT 256

static uint64_t round_up(uint64_t v, uint64_t unit) { return (v + unit - 1) / unit * unit; }

/* Returns the maximum number of resident blocks per multiprocessor of an NVIDIA GPU; 0: unknown. Traces of
 * torch.profiler do not contain it. */
static uint32_t blocks_of_cc(uint32_t major, uint32_t minor) {
    switch (major) {
    case 3: return 16;
    case 5:
    case 6:
    case 9: return 32;
    case 7: return minor == 5 ? 16 : 32;
    case 8: return minor == 0 ? 32 : minor == 9 ? 24 : 16;
    case 10: return minor == 1 ? 24 : 32;
    case 11: return minor == 0 ? 24 : 32;
    case 12: return 24;
    default: return 0;
    }
}

/* AMD's traces have numbers in the form of compute capabilities, too. */
static uint32_t max_blocks(const struct timeline *tl, const struct timeline_device *d) {
    const char *name = timeline_text(tl, d->name);
    if (d->max_blocks_per_sm) return d->max_blocks_per_sm;
    if (d->warp_size != 32 || strstr(name, "AMD") || strstr(name, "Radeon")) return 0;
    return blocks_of_cc(d->cc_major, d->cc_minor);
}

/* Parts of a multiprocessor, each with its own registers. */
static uint32_t parts_of_sm(const struct timeline_device *d) {
    return d->cc_major == 6 && d->cc_minor == 0 ? 2 : 4;
}

double occupancy_theoretical(const struct timeline *tl, const struct timeline_shape *s,
                             enum analysis_limiter *limiter, uint32_t *blocks_per_sm) {
    const struct timeline_device *d = &tl->devices[s->device];
    uint64_t threads = (uint64_t)s->block[0] * s->block[1] * s->block[2];
    uint64_t warp = d->warp_size ? d->warp_size : 32, warps = (threads + warp - 1) / warp;
    *limiter = ANALYSIS_LIMIT_UNKNOWN;
    *blocks_per_sm = 0;
    if (d->is_cpu || !threads || !d->max_threads_per_sm) return NAN;
    uint64_t max_warps = d->max_threads_per_sm / warp, blocks = max_warps / warps;
    *limiter = ANALYSIS_LIMIT_WARPS;
    uint32_t most = max_blocks(tl, d), parts = parts_of_sm(d);
    if (most && most < blocks) {
        blocks = most;
        *limiter = ANALYSIS_LIMIT_BLOCKS;
    }
    if (s->registers && d->regs_per_sm) {
        uint64_t warps_of_part = d->regs_per_sm / parts / round_up(s->registers * warp, REGISTER_UNIT);
        uint64_t fit = warps_of_part * parts / warps;
        if (fit < blocks) {
            blocks = fit;
            *limiter = ANALYSIS_LIMIT_REGISTERS;
        }
    }
    uint64_t smem = (uint64_t)s->static_smem_bytes + s->dynamic_smem_bytes;
    if (smem && d->smem_per_sm_bytes) {
        bool new = d->cc_major >= 8;
        uint64_t fit = d->smem_per_sm_bytes / round_up(smem + (new ? 1024 : 0), new ? 128 : 256);
        if (fit < blocks) {
            blocks = fit;
            *limiter = ANALYSIS_LIMIT_SMEM;
        }
    }
    *blocks_per_sm = (uint32_t)MIN(blocks, UINT32_MAX);
    return blocks ? (double)(blocks * warps) / (double)max_warps : NAN; /* the kernel ran: a limit is wrong */
}
