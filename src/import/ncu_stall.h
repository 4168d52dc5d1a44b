/* Warp stall reasons, by their names in Nsight Compute's metrics, details page and advice. Values are cycles
 * that a warp was stalled between two issued instructions, or numbers of program counter samples, which give
 * only shares. */
#ifndef IMPORT_NCU_STALL_H
#define IMPORT_NCU_STALL_H

#include <stdbool.h>
#include <stddef.h>

/* X(id, name in metrics, words in advice or NULL) */
#define NCU_STALLS(X)                                                         \
    X(BARRIER, "barrier", "sibling warps at a CTA barrier")                   \
    X(BRANCH, "branch_resolving", "branch target to be computed")             \
    X(DISPATCH, "dispatch_stall", "dispatcher holds back")                    \
    X(DRAIN, "drain", "memory instructions to complete")                      \
    X(GMMA, "gmma", NULL)                                                     \
    X(CONSTANT, "imc_miss", "immediate constant cache")                       \
    X(LG, "lg_throttle", "L1 instruction queue for local and global")         \
    X(LONG_SCOREBOARD, "long_scoreboard", "scoreboard dependency on a L1TEX") \
    X(MATH, "math_pipe_throttle", "execution pipe to be available")           \
    X(MEMBAR, "membar", "memory barrier")                                     \
    X(MIO, "mio_throttle", "MIO (memory input/output) instruction queue")     \
    X(MISC, "misc", "miscellaneous")                                          \
    X(NO_INSTRUCTION, "no_instruction", "not having the next instruction")    \
    X(NOT_SELECTED, "not_selected", "not selected")                           \
    X(SELECTED, "selected", NULL)                                             \
    X(SHORT_SCOREBOARD, "short_scoreboard", "scoreboard dependency on a MIO") \
    X(SLEEPING, "sleeping", "sleeping")                                       \
    X(TEX, "tex_throttle", "L1 instruction queue for texture")                \
    X(WAIT, "wait", "fixed latency execution dependency")                     \
    X(WARPGROUP, "warpgroup_arrive", "warpgroup")
enum ncu_stall {
#define X(id, name, words) NCU_STALL_##id,
    NCU_STALLS(X)
#undef X
        NCU_STALL_END
};
const char *ncu_stall_name(enum ncu_stall s);

/* Sources of stall data. Their values must not be mixed. */
enum ncu_stall_source {
    NCU_STALL_NO_SOURCE,
    NCU_STALL_LATENCY, /* smsp__average_warp_latency_issue_stalled_* */
    NCU_STALL_RATIO,   /* smsp__average_warps_issue_stalled_* */
    NCU_STALL_SAMPLES, /* smsp__pcsamp_warps_issue_stalled_* */
    NCU_STALL_LABEL,   /* "Stall Long Scoreboard" */
    NCU_STALL_RULE,    /* the advice "CPIStall" */
};
/* NCU_STALL_END: not a stall metric */
enum ncu_stall ncu_stall_of_metric(const char *name, size_t len, enum ncu_stall_source *source);
/* Parses advice such as "... each warp of this kernel spends 491.9 cycles being stalled waiting for a
 * scoreboard dependency on a L1TEX ... represents about 52.7% of the total average of 933.1 cycles ...".
 * NCU_STALL_END: no reason found. *total may be NaN. */
enum ncu_stall ncu_stall_of_rule(const char *text, size_t len, double *cycles, double *total);

#endif
